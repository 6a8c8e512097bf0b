"""Structs in Thrift's compact protocol taken apart and put together again, whatever is in them.

A struct is a list of [field, type, value]; a list is (type of its elements, elements).
"""

TRUE, FALSE, BYTE, DOUBLE, BINARY, LIST, SET, STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
NUMBERS = (4, 5, 6)


def read_struct(data, at=0):
    """(fields, where it ends) of the struct that begins at `at`."""
    fields, field = [], 0
    while data[at]:
        head, at = data[at], at + 1
        if head >> 4:
            field += head >> 4
        else:
            field, at = read_zigzag(data, at)
        value, at = read_value(data, at, head & 15)
        fields.append([field, head & 15, value])
    return fields, at + 1


def read_value(data, at, kind):
    if kind in (TRUE, FALSE):
        return kind == TRUE, at
    if kind == BYTE:
        return data[at], at + 1
    if kind in NUMBERS:
        return read_zigzag(data, at)
    if kind == DOUBLE:
        return bytes(data[at : at + 8]), at + 8
    if kind == BINARY:
        n, at = read_varint(data, at)
        return bytes(data[at : at + n]), at + n
    if kind == STRUCT:
        return read_struct(data, at)
    assert kind in (LIST, SET), kind
    n, inner, at = data[at] >> 4, data[at] & 15, at + 1
    if n == 15:
        n, at = read_varint(data, at)
    items = []
    for _ in range(n):
        item, at = (data[at], at + 1) if inner in (TRUE, FALSE) else read_value(data, at, inner)
        items.append(item)
    return [inner, items], at


def read_varint(data, at):
    value = shift = 0
    while data[at] > 127:
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
    return value | data[at] << shift, at + 1


def read_zigzag(data, at):
    value, at = read_varint(data, at)
    return value >> 1 ^ -(value & 1), at


def write_struct(fields):
    out, last = bytearray(), 0
    for field, kind, value in fields:
        if kind in (TRUE, FALSE):
            kind = TRUE if value else FALSE
        if 0 < field - last < 16:
            out.append(field - last << 4 | kind)
        else:
            out.append(kind)
            out += write_zigzag(field)
        last = field
        out += b"" if kind in (TRUE, FALSE) else write_value(kind, value)
    out.append(0)
    return bytes(out)


def write_value(kind, value):
    if kind == BYTE:
        return bytes([value & 255])
    if kind in NUMBERS:
        return write_zigzag(value)
    if kind == DOUBLE:
        return value
    if kind == BINARY:
        return write_varint(len(value)) + value
    if kind == STRUCT:
        return write_struct(value)
    inner, items = value
    n = len(items)
    out = bytes([n << 4 | inner]) if n < 15 else bytes([0xF0 | inner]) + write_varint(n)
    one = [bytes([x]) if inner in (TRUE, FALSE) else write_value(inner, x) for x in items]
    return out + b"".join(one)


def write_varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])


def write_zigzag(value):
    value = max(-(2**63), min(value, 2**63 - 1))
    return write_varint((value << 1 ^ value >> 63) & 2**64 - 1)


def get(fields, number):
    """The value of a field; None if it is absent."""
    return next((value for field, _, value in fields if field == number), None)


def put(fields, number, kind, value):
    """Give a field a value; it is added in its place if it is absent."""
    for field in fields:
        if field[0] == number:
            field[1:] = [kind, value]
            return
    fields.append([number, kind, value])
    fields.sort(key=lambda field: field[0])


def places(fields):
    """Every (list, index, kind or None) whose element can be changed; None: a whole field."""
    for i, (_, kind, value) in enumerate(fields):
        yield fields, i, None
        if kind == STRUCT:
            yield from places(value)
        elif kind in (LIST, SET):
            inner, items = value
            for k, item in enumerate(items):
                yield items, k, inner
                if inner == STRUCT:
                    yield from places(item)
