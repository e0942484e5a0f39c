"""Tests of several directions, by hand."""

from shared.evaluation.directions import by_name, direction_of, table


def test_directions_are_found_in_the_names_of_tests():
    assert direction_of("de-en/test-new") == ("de", "en", "test-new")
    assert direction_of("sv-SE-zh-CN/test") == ("sv-SE", "zh-CN", "test")
    assert direction_of("en/test") is direction_of("de-en") is direction_of("my-corpus/test") is None
    groups = by_name(["de-en/test", "fr-en/test", "de-en/dev", "test"])
    assert groups == {"test": ["de-en/test", "fr-en/test"]}


def test_a_table_has_sources_by_targets_and_their_means():
    assert table({"de-en/t": 30.0, "fr-en/t": 20.0, "de-fr/t": 10.0}) == [
        ["", "fr", "en", "mean"],
        ["de", "10.0", "30.0", "20.0"],
        ["fr", "", "20.0", "20.0"],
        ["mean", "10.0", "25.0", "20.0"],
    ]
