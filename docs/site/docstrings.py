"""Docstrings are written to be read in a terminal; here their mathematics becomes reStructuredText.

There a formula is an indented paragraph, and |x| and coef_ are plain characters.  Read as
reStructuredText, the first would be a quotation, set as prose, and the others a substitution and a
link that lead nowhere.
"""

import re

PLAIN = re.compile(r"(``.*?``|`[^`]*`)")
"""Code in a sentence: what is not to be touched, kept by `re.split`."""
SECTION = re.compile(r"-{3,}\s*")


def to_rst(lines: list[str]) -> list[str]:
    """The lines of a docstring, with formulas as literal blocks and special characters escaped."""
    out: list[str] = []
    section, in_formula = "", False
    for k, line in enumerate(lines):
        if k + 1 < len(lines) and line.strip() and SECTION.fullmatch(lines[k + 1]):
            section = line.strip()
        indented = line.startswith("    ") and section in ("", "Notes")
        if indented and not in_formula and (not out or not out[-1].strip()):
            out += [".. code-block:: text", ""]
            in_formula = True
        elif line.strip() and not indented:
            in_formula = False
        kept = in_formula or section in ("Examples", "References")
        out.append(line if kept else _escaped(line))
    return out


def _escaped(line: str) -> str:
    parts = PLAIN.split(line)
    parts[::2] = [re.sub(r"\||(?<=\w)_(?!\w)", r"\\\g<0>", part) for part in parts[::2]]
    return "".join(parts)


def process(app, what, name, value, options, lines):
    """Sphinx's ``autodoc-process-docstring``: change the lines in place, before numpydoc's."""
    lines[:] = to_rst(lines)
