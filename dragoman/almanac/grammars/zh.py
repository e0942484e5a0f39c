"""Chinese (Mandarin, simplified) in Almanac's second world. How to read this file: dragoman/almanac/phrases.py."""

from __future__ import annotations

from dragoman.almanac.phrases import Word

# In words.tsv: The second form is the measure word, where it is not 个.
GENDERS: dict[str, str] = {}
NUMERALS = "零 一 两 三 四 五 六 七 八 九 十 十一 十二".split()  # before a measure word, so 两 and not 二
WEEKDAYS = "一二三四五六日"


def number(kind: str, value: int) -> str | None:
    """Counts, months, days and clock times."""
    if kind == "count":
        return NUMERALS[value]
    if kind == "weekday":
        return f"星期{WEEKDAYS[value]}"
    if kind == "month":
        return f"{value}月"
    if kind == "time":
        return f"{value // 100}点{value % 100:02}分" if value % 100 else f"{value // 100}点"
    return None


def measure(item: Word) -> str:
    """The measure word: 把, 本, 只."""
    return item.form(1) or "个"


def described(*items: Word) -> str:
    """很重的红色包: qualities and a colour before the noun."""
    *before, noun = items
    return "".join([*(f"{item}色" if item.kind == "colour" else f"很{item}的" for item in before), str(noun)])


FORMS = {
    "": lambda *items: "".join(map(str, items)),
    "一": lambda *items: f"一{measure(items[-1])}{described(*items)}",
    "一量": lambda item: f"一{measure(item)}",
    "量": lambda *items: f"{measure(items[-1])}{described(*items)}",
    "色": described,
    "数": lambda count, animal: f"{count}{measure(animal)}{animal}",
    "两": str,
}


def finish(text: str) -> str:
    """Nothing to be done."""
    return text
