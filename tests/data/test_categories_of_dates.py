"""Categories that are neither words nor numbers are refused by name, whatever holds them."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import streamlearn as sl


@pytest.mark.parametrize("make", [lambda frame: frame, pa.Table.from_pandas])
def test_categories_of_dates_are_refused_by_name(make):
    days = pd.to_datetime(["2024-01-01", "2024-01-02"])
    frame = pd.DataFrame({"day": pd.Categorical(days[np.arange(60) % 2]), "y": np.arange(60.0)})
    data = sl.open_dataset(make(frame), target="y")
    with pytest.raises(sl.SourceError, match="column 'day' holds categories of .*give them as str"):
        sl.AdditiveRegressor().fit(data)
