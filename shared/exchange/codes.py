"""Other projects' codes for languages: ``de_DE`` and ``en_XX``, ``__de__``, ``deu_Latn``, ``>>deu<<``, ``<2de>``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from shared.errors import DataError, UsageError
from shared.text.languages import LANGUAGES

#: ISO 639-3 codes, those of FLORES-200 and OPUS-MT, of languages that have another code here.
_SHORTER = """
afr af  aka ak  als sq  amh am  ara ar  arb ar  asm as  ayr ay  aze az  azj az  bak ba  bam bm  bel be  ben bn  bod bo
bos bs  bul bg  cat ca  ces cs  cmn zh  cym cy  dan da  deu de  dik din dzo dz  ell el  eng en  epo eo  est et  eus eu
ewe ee  fao fo  fas fa  fij fj  fin fi  fra fr  fuv ff  gaz om  gla gd  gle ga  glg gl  grn gn  guj gu  hat ht  hau ha
heb he  hin hi  hrv hr  hun hu  hye hy  ibo ig  ind id  isl is  ita it  jav jv  jpn ja  kan kn  kas ks  kat ka  kaz kk
khk mn  khm km  kik ki  kin rw  kir ky  kmr ku  knc kr  kon kg  kor ko  lao lo  lav lv  lim li  lin ln  lit lt  ltz lb
lug lg  lvs lv  mal ml  mar mr  mkd mk  mlg mg  mlt mt  mon mn  mri mi  msa ms  mya my  nep ne  nld nl  nno nn  nob nb
nor no  npi ne  ns nso  nya ny  oci oc  ori or  ory or  pan pa  pbt ps  pes fa  plt mg  pol pl  por pt  pus ps  quy qu
ron ro  run rn  rus ru  sag sg  san sa  sin si  slk sk  slv sl  smo sm  sna sn  snd sd  som so  sot st  spa es  sqi sq
srd sc  srp sr  ssw ss  sun su  swa sw  swe sv  swh sw  tam ta  tat tt  tel te  tgk tg  tgl tl  tha th  tir ti  tsn tn
tso ts  tuk tk  tur tr  twi tw  uig ug  ukr uk  urd ur  uzb uz  uzn uz  vie vi  wol wo  xho xh  ydd yi  yid yi  yor yo
zho zh  zsm ms  zul zu  iw he  jw jv
"""
SHORTER = dict(zip(_SHORTER.split()[::2], _SHORTER.split()[1::2], strict=True))

_WRITTEN = re.compile(r"(?:\[|__|>>|<2)?([a-z]{2,3})(?:[_-]([A-Za-z]{2,4}))?(?:\]|__|<<|>)?")


def language_of(symbol: str) -> str | None:
    """Return our code for a foreign symbol of a language, or None if it is not that of a known language.

    A region is left out (``de_DE`` is ``de``), a script where it is the usual one (``zho_Hans`` is ``zh``, ``zho_Hant``
    is ``zh-Hant``).
    """
    found = _WRITTEN.fullmatch(symbol)
    if not found:
        return None
    base, rest = SHORTER.get(found[1], found[1]), found[2] or ""
    written = f"{base}-{rest}"
    if len(rest) == 4 and written in LANGUAGES and LANGUAGES[base].script != rest:
        return written
    return base if base in LANGUAGES else None


def languages_of_side(
    side: str, given: list[str] | None, *, tagged: Sequence[str], said: str | None, code: str | None, path: str | Path
) -> list[str]:
    """Return the languages that a model reads or writes.

    Args:
        side: "source" or "target".
        given: what the user says that they are.
        tagged: our codes of those that the model has symbols for; none if it has none for languages.
        said: what the model calls the language of this side, if it does.
        code: our code of that.
        path: what was read.

    Raises:
        UsageError: for a language that the model has no symbol for.
        DataError: if nobody says.

    """
    if given:
        unknown = [code for code in given if tagged and code not in tagged]
        if unknown:
            raise UsageError(f"the model has no symbol for {', '.join(unknown)}, only for {', '.join(tagged)}")
        return given
    if tagged:
        return list(tagged)
    if code is None:
        what = f"calls its {side} language {said!r}" if said else f"does not say its {side} language"
        raise DataError(f"{path}: {what}: name it with --{side}-languages")
    return [code]
