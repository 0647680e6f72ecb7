"""Words that every domain needs: first names, days, months."""

from __future__ import annotations


def words(listed: str) -> tuple[str, ...]:
    """A vocabulary from one line: "knee lower_back" lists "knee" and "lower back"."""
    return tuple(word.replace("_", " ") for word in listed.split())


EVERYDAY: dict[str, tuple[str, ...]] = {
    "first": words(
        "Anna Peter Maria Thomas Laura David Helen Daniel Sofia Martin Clara Samuel Nina Robert Alice George "
        "Emma Victor Julia Simon Eva Walter Irene Oscar Ruth Adam Lena Frank Olga Henry Ines Karl Nora Leon "
        "Teresa Hugo Amina Joseph Mina Stephen"
    ),
    "initial": words("A. B. C. D. E. F. G. H. J. K. L. M. N. P. R. S. T. W."),
    "person": (
        "[Person {first} {name} ]",
        "[Person {first} {name} ]",
        "[Person {first} {initial} {name} ]",
        "[Person {initial} {name} ]",
    ),
    "weekday": words("Monday Tuesday Wednesday Thursday Friday Saturday Sunday"),
    "month": words("January February March April May June July August September October November December"),
    "few": words("two three four five six seven nine ten twelve"),
}
