"""A mixture on pixels: plants or not, where both are several materials in sun and in shade."""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import zarr

import streamlearn as sl

SIZE, CHANNELS = 240, 12
MATERIALS = {"grass": True, "trees": True, "soil": False, "water": False, "roofs": False}


def image():
    """Channels of each pixel (SIZE, SIZE, CHANNELS), and whether plants grow there."""
    rng = np.random.default_rng(0)
    centres = rng.random((25, 2)) * SIZE
    at = np.stack(np.mgrid[:SIZE, :SIZE], axis=-1)[:, :, None]
    field = ((at - centres) ** 2).sum(axis=-1).argmin(axis=-1)  # 25 fields
    material = rng.permutation(np.arange(25) % len(MATERIALS))[field]
    light = rng.choice([0.4, 1.0], 25)[field]
    spectra = rng.random((len(MATERIALS), CHANNELS)) + 0.2
    pixels = light[..., None] * spectra[material] + rng.normal(0, 0.15, (SIZE, SIZE, CHANNELS))
    return pixels.astype(np.float32), np.array(list(MATERIALS.values()))[material]


def main(folder):
    pixels, plants = image()
    rows = zarr.create_array(
        folder / "pixels.zarr", data=pixels.reshape(-1, CHANNELS), chunks=(4096, CHANNELS)
    )
    known = np.random.default_rng(1).choice(SIZE * SIZE, 3000, replace=False)  # labelled by hand
    X, y = pixels.reshape(-1, CHANNELS)[known], plants.ravel()[known]

    for n in (1, 10):  # one expert is a linear model
        model = sl.SVMMixtureClassifier(n, gate="linear", expert_loss="log_loss").fit(X, y)
        model.predict_to(sl.open_dataset(rows), folder / f"map{n}.zarr")
        answer = zarr.open_group(folder / f"map{n}.zarr")["prediction"][:].reshape(SIZE, SIZE)
        print(
            f"{model.n_components_:2} experts: {np.mean(answer == plants):.1%} of the pixels right"
        )

    figure, axes = plt.subplots(1, 3, figsize=(9, 3.2), layout="constrained")
    shown = {"three channels": pixels[..., :3].clip(0, 1), "plants": plants, "found": answer}
    for panel, (title, picture) in zip(axes, shown.items(), strict=True):
        panel.imshow(picture, interpolation="nearest")
        panel.set_title(title)
        panel.set_axis_off()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder))
