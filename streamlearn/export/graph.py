"""A graph of ONNX under construction: operators as methods, arrays of float64 throughout."""

from __future__ import annotations

from types import ModuleType

import numpy as np

OPSET, OPSET_ML, IR = 17, 3, 8
"""Versions of the operators and of the file: those of 2022, so that older runtimes take it."""


class Graph:
    """Nodes, constants and inputs; values are known by their names."""

    def __init__(self) -> None:
        try:
            import onnx
        except ImportError as error:
            raise ValueError("to_onnx needs onnx: pip install 'streamlearn[onnx]'") from error
        self._onnx: ModuleType = onnx
        self._nodes: list[object] = []
        self._constants: list[object] = []
        self._inputs: list[object] = []
        self._count = 0

    def input(self, name: str, width: int, *, words: bool = False) -> str:
        """An input of so many columns, of float64 or strings."""
        kind = self._onnx.TensorProto
        kind = kind.STRING if words else kind.DOUBLE
        self._inputs.append(self._onnx.helper.make_tensor_value_info(name, kind, [None, width]))
        return name

    def constant(self, value: object) -> str:
        """An array as a value: float64, or int64 for whole numbers."""
        array = np.asarray(value)
        array = array.astype(np.int64 if array.dtype.kind in "iu" else np.float64)
        name = self._name()
        self._constants.append(self._onnx.numpy_helper.from_array(array, name))
        return name

    def op(self, kind: str, *inputs: str, **attributes: object) -> str:
        """The value of an operator."""
        name = self._name()
        domain = "ai.onnx.ml" if kind == "LabelEncoder" else ""
        self._nodes.append(
            self._onnx.helper.make_node(kind, list(inputs), [name], domain=domain, **attributes)
        )
        return name

    def cast(self, value: str, kind: str) -> str:
        # by name: onnx, which knows the number of each type, is optional
        return self.op("Cast", value, to=getattr(self._onnx.TensorProto, kind))

    def total(self, value: str, axis: int, *, keep: bool) -> str:
        """The sum along an axis."""
        return self.op("ReduceSum", value, self.constant(np.array([axis])), keepdims=int(keep))

    def columns(self, value: str, chosen: np.ndarray) -> str:
        """Some columns of a matrix."""
        return self.op("Gather", value, self.constant(np.asarray(chosen, np.int64)), axis=1)

    def model(self, decision: str, n_outputs: int, name: str) -> bytes:
        """The file, whose only output is `decision` (n, n_outputs)."""
        helper, kind = self._onnx.helper, self._onnx.TensorProto.DOUBLE
        self._nodes.append(helper.make_node("Identity", [decision], ["decision"]))
        out = helper.make_tensor_value_info("decision", kind, [None, n_outputs])
        graph = helper.make_graph(self._nodes, name, self._inputs, [out], self._constants)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", OPSET_ML)]
        model = helper.make_model(
            graph, opset_imports=opsets, ir_version=IR, producer_name="streamlearn"
        )
        self._onnx.checker.check_model(model)
        data: bytes = model.SerializeToString()
        return data

    def _name(self) -> str:
        self._count += 1
        return f"streamlearn {self._count}"
