"""Noise by content: the vectors of the specification, and that nothing else has a say in it."""

from __future__ import annotations

import numpy as np

from spanloom.layers.noise import key_of, normals


def test_noise_is_that_of_the_vector() -> None:
    table = normals(key_of(13, b"The cat sat"), 0, 2)
    assert np.allclose(table, [[0.31654359, -2.29842473], [-1.72732523, -0.39599841]], atol=1e-8)


def test_large_keys_stay_apart() -> None:
    large = 2**63 + 12345
    assert np.allclose(normals(large, 1, 1), [[-0.49593591, 0.02259898]], atol=1e-8)
    assert not np.allclose(normals(large, 1, 1), normals(large + 1, 1, 1))


def test_fewer_rows_are_the_first_of_more() -> None:
    key = key_of(1, b"left knee")
    most = normals(key, 3, 180)
    assert most.dtype == np.float64
    for rows in (0, 1, 7, 60, 179):
        assert np.array_equal(normals(key, 3, rows), most[:rows])


def test_seed_content_and_number_all_count() -> None:
    keys = {key_of(seed, content) for seed in range(3) for content in (b"", b"a", b"b")}
    assert len(keys) == 9
    assert all(0 <= key < 2**64 for key in keys)
    assert not np.allclose(normals(5, 0, 4), normals(5, 1, 4))
