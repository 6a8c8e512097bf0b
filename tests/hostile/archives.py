"""Archives taken apart and put together again, with checksums made right: what an attacker does."""

import json
import struct
import zlib

MAGIC = b"streamlearn archive 1\n"
PREFIX = struct.Struct("<QQ")


def take_apart(raw):
    """The JSON header of an archive, and the bytes of its arrays."""
    n, _ = PREFIX.unpack_from(raw, len(MAGIC))
    start = len(MAGIC) + PREFIX.size
    header = json.loads(raw[start : start + n])
    at = start + n + -(start + n) % 64
    arrays = []
    for place in header["arrays"]:
        begin = at + place["at"]
        arrays.append(bytearray(raw[begin : begin + place["nbytes"]]))
    return header, arrays


def put_together(header, arrays):
    """The bytes of an archive that holds this tree and these arrays, whatever they are."""
    places, data = [], b""
    for array in arrays:
        places.append({"at": len(data), "nbytes": len(array), "crc": zlib.crc32(array)})
        data += bytes(array) + bytes(-len(array) % 64)
    text = json.dumps({**header, "arrays": places}).encode()
    front = MAGIC + PREFIX.pack(len(text), zlib.crc32(text)) + text
    return front + bytes(-len(front) % 64) + data
