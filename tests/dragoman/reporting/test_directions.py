"""Tests of several directions, by hand."""

from dragoman.reporting.directions import by_name, direction_of, table


def test_directions_are_found_in_the_names_of_tests():
    assert direction_of("de-en/test-new") == ("de", "en", "test-new")
    assert direction_of("sv-SE-zh-CN/test") == ("sv-SE", "zh-CN", "test")
    assert direction_of("de-en/") == ("de", "en", "")
    assert direction_of("de-en/a/b") == ("de", "en", "a/b")
    for name in ("en/test", "de-en", "my-corpus/test", "de-qqq/t", "qqq-de/t", ""):  # two known languages and a name
        assert direction_of(name) is None
    assert by_name(["de-en/a", "de-en/b", "fr-en/b", "fr-en/c", "test"]) == {"b": ["de-en/b", "fr-en/b"]}
    assert by_name([]) == {}


def test_a_table_has_sources_by_targets_and_their_means():
    assert table({"de-en/t": 30.0, "fr-en/t": 20.0, "de-fr/t": 10.0}) == [
        ["", "fr", "en", "mean"],
        ["de", "10.0", "30.0", "20.0"],
        ["fr", "", "20.0", "20.0"],
        ["mean", "10.0", "25.0", "20.0"],
    ]


def test_a_table_without_scores_has_headings_alone():
    assert table({}) == [["", "mean"], ["mean", ""]]
    assert table({"test": 3.0}) == [["", "mean"], ["mean", ""]]


def test_targets_come_in_the_order_of_sources_then_the_others():
    found = table({"fr-es/t": 1.0, "de-fr/t": 2.26, "en-de/t": 3.0, "de-zh/t": 4.0})
    assert found[0] == ["", "fr", "de", "es", "zh", "mean"]
    assert [line[0] for line in found[1:]] == ["fr", "de", "en", "mean"]
    assert found[2] == ["de", "2.3", "", "", "4.0", "3.1"]
