"""Language codes: name, script, whether words are divided by spaces, sacreBLEU's tokenizer, and the tag.

Codes are ISO 639 (two letters where there are two), with a region or script where corpora write one: CoVoST 2 says
``zh-CN`` and ``sv-SE``. The table covers MuST-C, CoVoST 2 and Common Voice, mBART-50, the 32 languages of mRASP, and
OPUS-100.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from reprlib import repr as shown
from typing import Any

from dragoman.shared.errors import DataError


@dataclass(frozen=True)
class Language:
    """Properties of a language.

    Attributes:
        code: as in manifests and tags.
        name: in English.
        script: ISO 15924 code of its writing.
    """

    code: str
    name: str
    script: str


_TABLE = """
af Afrikaans Latn       am Amharic Ethi         ar Arabic Arab          as Assamese Beng        az Azerbaijani Latn
be Belarusian Cyrl      bg Bulgarian Cyrl       bn Bengali Beng         br Breton Latn          bs Bosnian Latn
ca Catalan Latn         ceb Cebuano Latn        cs Czech Latn           cv Chuvash Cyrl         cy Welsh Latn
da Danish Latn          de German Latn          dv Dhivehi Thaa         el Greek Grek           en English Latn
eo Esperanto Latn       es Spanish Latn         et Estonian Latn        eu Basque Latn          fa Persian Arab
fi Finnish Latn         fil Filipino Latn       fr French Latn          fy Frisian Latn         ga Irish Latn
gd Gaelic Latn          gl Galician Latn        gu Gujarati Gujr        ha Hausa Latn           he Hebrew Hebr
hi Hindi Deva           hr Croatian Latn        ht Haitian Latn         hu Hungarian Latn       hy Armenian Armn
ia Interlingua Latn     id Indonesian Latn      ig Igbo Latn            is Icelandic Latn       it Italian Latn
ja Japanese Jpan        jv Javanese Latn        ka Georgian Geor        kk Kazakh Cyrl          km Khmer Khmr
kn Kannada Knda         ko Korean Kore          ku Kurdish Latn         ky Kyrgyz Cyrl          la Latin Latn
lb Luxembourgish Latn   lg Ganda Latn           ln Lingala Latn         lo Lao Laoo             lt Lithuanian Latn
lv Latvian Latn         mg Malagasy Latn        mi Maori Latn           mk Macedonian Cyrl      ml Malayalam Mlym
mn Mongolian Cyrl       mr Marathi Deva         ms Malay Latn           mt Maltese Latn         my Burmese Mymr
nb Bokmål Latn          ne Nepali Deva          nl Dutch Latn           nn Nynorsk Latn         no Norwegian Latn
oc Occitan Latn         or Odia Orya            pa Punjabi Guru         pl Polish Latn          ps Pashto Arab
pt Portuguese Latn      qu Quechua Latn         rm Romansh Latn         ro Romanian Latn        ru Russian Cyrl
rw Kinyarwanda Latn     sd Sindhi Arab          si Sinhala Sinh         sk Slovak Latn          sl Slovenian Latn
so Somali Latn          sq Albanian Latn        sr Serbian Cyrl         st Sotho Latn           su Sundanese Latn
sv Swedish Latn         sw Swahili Latn         ta Tamil Taml           te Telugu Telu          tg Tajik Cyrl
th Thai Thai            tk Turkmen Latn         tl Tagalog Latn         tn Tswana Latn          tr Turkish Latn
tt Tatar Cyrl           ug Uyghur Arab          uk Ukrainian Cyrl       ur Urdu Arab            uz Uzbek Latn
vi Vietnamese Latn      wo Wolof Latn           xh Xhosa Latn           yi Yiddish Hebr         yo Yoruba Latn
yue Cantonese Hant      zh Chinese Hans         zu Zulu Latn
zh-CN Chinese Hans      zh-TW Chinese Hant      zh-HK Cantonese Hant    zh-Hans Chinese Hans    zh-Hant Chinese Hant
sv-SE Swedish Latn      pt-BR Portuguese Latn   pt-PT Portuguese Latn   fr-CA French Latn       fr-FR French Latn
en-US English Latn      en-GB English Latn      es-ES Spanish Latn      es-MX Spanish Latn      de-DE German Latn
fy-NL Frisian Latn      ga-IE Irish Latn        hy-AM Armenian Armn     nn-NO Nynorsk Latn      pa-IN Punjabi Guru
ne-NP Nepali Deva       sr-Latn Serbian Latn    sr-Cyrl Serbian Cyrl    rm-sursilv Sursilvan Latn
rm-vallader Vallader Latn
ace Acehnese Latn       ace-Arab Acehnese Arab  acm Mesopotamian Arab   acq Taizzi-Adeni Arab   aeb Tunisian Arab
ajp South-Levantine Arab apc North-Levantine Arab ars Najdi Arab        ary Moroccan Arab       arz Egyptian Arab
ak Akan Latn            ast Asturian Latn       awa Awadhi Deva         ay Aymara Latn          azb Azeri Arab
ba Bashkir Cyrl         ban Balinese Latn       bem Bemba Latn          bho Bhojpuri Deva       bjn Banjar Latn
bjn-Arab Banjar Arab    bm Bambara Latn         bo Tibetan Tibt         bug Buginese Latn       cjk Chokwe Latn
ckb Sorani Arab         crh Crimean-Tatar Latn  din Dinka Latn          dyu Dyula Latn          dz Dzongkha Tibt
ee Ewe Latn             ff Fulah Latn           fj Fijian Latn          fo Faroese Latn         fon Fon Latn
fur Friulian Latn       gn Guarani Latn         hne Chhattisgarhi Deva  ilo Ilocano Latn        kab Kabyle Latn
kac Kachin Latn         kam Kamba Latn          kbp Kabiye Latn         kea Kabuverdianu Latn   kg Kongo Latn
ki Kikuyu Latn          kmb Kimbundu Latn       kr Kanuri Latn          kr-Arab Kanuri Arab     ks Kashmiri Arab
ks-Deva Kashmiri Deva   li Limburgish Latn      lij Ligurian Latn       lmo Lombard Latn        ltg Latgalian Latn
lua Luba-Lulua Latn     luo Luo Latn            lus Mizo Latn           mag Magahi Deva         mai Maithili Deva
min Minangkabau Latn    mni Manipuri Beng       mos Mossi Latn          nso Northern-Sotho Latn nus Nuer Latn
ny Nyanja Latn          om Oromo Latn           pag Pangasinan Latn     pap Papiamento Latn     prs Dari Arab
rn Rundi Latn           sa Sanskrit Deva        sat Santali Beng        sc Sardinian Latn       scn Sicilian Latn
sg Sango Latn           shn Shan Mymr           sm Samoan Latn          sn Shona Latn           ss Swati Latn
szl Silesian Latn       taq Tamasheq Latn       taq-Tfng Tamasheq Tfng  ti Tigrinya Ethi        tpi Tok-Pisin Latn
ts Tsonga Latn          tum Tumbuka Latn        tw Twi Latn             tzm Tamazight Tfng      umb Umbundu Latn
vec Venetian Latn       war Waray Latn
an Aragonese Latn       se Northern-Sami Latn   sh Serbo-Croatian Latn  wa Walloon Latn
ab Abkhaz Cyrl          arn Mapudungun Latn     av Avar Cyrl            ce Chechen Cyrl         chr Cherokee Cher
co Corsican Latn        cr Cree Cans            dsb Lower-Sorbian Latn  gsw Alemannic Latn      gv Manx Latn
hsb Upper-Sorbian Latn  iu Inuktitut Cans       kl Greenlandic Latn     kok Konkani Deva
kv Komi Cyrl            kw Cornish Latn         mhr Meadow-Mari Cyrl    mic Mikmaq Latn         mwl Mirandese Latn
myv Erzya Cyrl          nah Nahuatl Latn        nqo Nko Nkoo            nv Navajo Latn          oj Ojibwe Cans
os Ossetian Cyrl        sah Yakut Cyrl          to Tongan Latn          ty Tahitian Latn        tyv Tuvan Cyrl
udm Udmurt Cyrl         yua Maya Latn           za Zhuang Latn          zza Zazaki Latn
"""

#: Scripts with capital letters; Georgian has none at the beginning of words and sentences.
_CASED_SCRIPTS = {"Latn", "Cyrl", "Grek", "Armn"}
_UNSPACED_SCRIPTS = {"Hans", "Hant", "Jpan", "Thai", "Laoo", "Khmr", "Mymr", "Tibt"}


def _read_table() -> dict[str, Language]:
    words = _TABLE.split()
    entries = zip(words[0::3], words[1::3], words[2::3], strict=True)
    return {code: Language(code, name, script) for code, name, script in entries}


LANGUAGES: dict[str, Language] = _read_table()

#: What else a language is called, behind our code: its codes in ISO 639-2 and 639-3, those of the whole language before
#: those of a part (zho, cmn), withdrawn ones (iw, scc), wrong ones that people write (jp), and names.
_OTHERS = """
af afr; ak aka fat; am amh; an arg aragonés; ar ara arb; as asm; ast asturianu; ay aym ayr; az aze azj azərbaycan;
ba bak; be bel; bg bul; bm bam; bn ben bangla; bo bod tib; br bre brezhoneg; bs bos bosanski; ca cat català;
cs ces cze cz čeština; cv chv; cy cym wel cymraeg; da dan dk dansk; de deu ger deutsch; din dik; dv div divehi;
dz dzo; ee ewe; el ell gre gr modern-greek; en eng; eo epo; es spa español castilian; et est ekk eesti;
eu eus baq euskara; fa fas per pes farsi; ff ful fuv fula; fi fin suomi; fil pilipino; fj fij; fo fao føroyskt;
fr fra fre français; fy fry western-frisian; ga gle gaeilge; gd gla scottish-gaelic gàidhlig; gl glg galego;
gn grn gug; gu guj; ha hau; he heb iw; hi hin; hr hrv scr hrvatski; ht hat haitian-creole kreyòl-ayisyen;
hu hun magyar; hy hye arm; ia ina; id ind in bahasa-indonesia; ig ibo; is isl ice íslenska; it ita italiano;
ja jpn jp; jv jav jw; ka kat geo; kg kon kng; ki kik; kk kaz; km khm; kn kan; ko kor; kr kau knc; ks kas;
ku kur kmr kurdî; ky kir; la lat latina; lb ltz; lg lug luganda; li lim; ln lin; lo lao; lt lit lietuvių;
lv lav lvs latviešu; mg mlg plt; mi mri mao māori; mk mkd mac; ml mal; mn mon khk; mr mar;
ms msa may zsm zlm bahasa-melayu; mt mlt malti; my mya bur; nb nob bokmal norwegian-bokmål norsk-bokmål; ne nep npi;
nl nld dut nederlands flemish; nn nno norwegian-nynorsk norsk-nynorsk; no nor norsk; nso ns; ny nya chichewa; oc oci;
om orm gaz; or ori ory; pa pan; pl pol polski; ps pus pbt; pt por português; pt-BR pob brazilian-portuguese;
qu que quy quz; rm roh rumantsch; rn run; ro ron rum mo mol română; ru rus; rw kin; sa san; sc srd; sd snd; se sme;
sg sag; sh hbs; si sin sinhalese; sk slk slo slovenčina; sl slv slovenščina; sm smo; sn sna; so som;
sq sqi alb als shqip; sr srp scc; ss ssw; st sot sesotho; su sun; sv swe svenska; sw swa swh kiswahili; ta tam;
te tel; tg tgk; th tha; ti tir; tk tuk; tl tgl; tn tsn; tr tur türkçe; ts tso; tt tat; tw twi; ug uig; uk ukr ua;
ur urd; uz uzb uzn; vi vie vn tiếng-việt; wa wln; wo wol; xh xho isixhosa; yi yid ydd ji; yo yor;
zh zho chi cmn cn mandarin; zh-Hant zht; zu zul isizulu; ab abk; av ava; ce che; co cos; cr cre cwd; gsw swiss-german;
gv glv; iu iku ike; kl kal kalaallisut; kok gom; kv kom kpv; kw cor; mic mi'kmaq micmac; nv nav; oj oji ojg; os oss;
to ton; ty tah; za zha zyb; zza diq
"""


def _read_others() -> dict[str, str]:
    entries = [entry.split() for entry in _OTHERS.split(";")]
    return {other: code for code, *others in entries for other in others}


#: Our code by another code or name of the language, in lower case.
OTHERS: dict[str, str] = _read_others()
_SPELLINGS = {
    **OTHERS,
    **{language.name.lower(): code for code, language in reversed(LANGUAGES.items())},
    **{code.lower(): code for code in LANGUAGES},
}


def check(code: str) -> str:
    """Return the code if it is known.

    Raises:
        DataError: for an unknown code, with the known one of the same language; for a name, the nearest in spelling.
    """
    if code in LANGUAGES:
        return code
    if not isinstance(code, str) or not code:
        raise DataError(f"{shown(code)} is not a language code")
    meant = called(code)
    if meant is not None:
        raise DataError(f"unknown language code {shown(code)}: write {meant!r} for {name(meant)}")
    plain = _plain(code)
    # A code of two or three letters is one of another language, and no misspelling: gan is not Guarani.
    near = difflib.get_close_matches(plain, _SPELLINGS, n=1) if len(plain.split("-")[0]) > 3 else []
    guess = f"; did you mean {_SPELLINGS[near[0]]!r}?" if near else "."
    raise DataError(
        f"unknown language code {shown(code)}{guess} Codes are those of ISO 639, of two letters where there are two "
        "(de, yue), some with a region or script (zh-TW, sr-Latn)"
    )


def check_pair(source: str, target: str) -> tuple[str, str]:
    """Return both codes of a direction if they are known and not the same.

    Raises:
        DataError: otherwise, as :func:`check` does.
    """
    if check(source) == check(target):
        raise DataError(f"source and target language are both {source!r}")
    return source, target


@cache
def called(name: str) -> str | None:
    """Return our code of a language that has another code or name (cmn, iw, deu, de_AT, German, Deutsch), else None."""
    plain = _plain(name)
    if plain in _SPELLINGS:
        return _SPELLINGS[plain]
    base, *rest = plain.split("-")
    code = _SPELLINGS.get(base)
    if code is None or not all(re.fullmatch("[a-z]{2}|[a-z]{4}|[0-9]{3}", part) for part in rest):
        return None
    # Of script and region, the one behind says more: zh_Hant_TW.
    return next((meant for part in reversed(rest) if (meant := _SPELLINGS.get(f"{code}-{part}".lower()))), code)


def among(code: str, tags: Iterable[str]) -> str | None:
    """Return the first of a file's tags that is of a language: its own, or else one with a region (en-US for en)."""
    tags = list(tags)
    exact = (tag for tag in tags if called(tag) == code)
    wider = (tag for tag in tags if called(_plain(tag).split("-")[0]) == code)
    return next(exact, None) or next(wider, None)


def hint(code: str, codes: Collection[str]) -> str:
    """Return the end of a message about a code that is not among the known ones: the one of the same language."""
    same = [one for one in codes if one == called(code)]
    return f": write {same[0]!r}" if same else ""


@cache
def _plain(name: str) -> str:
    """Return a code or name in the form that ours have, in lower case, without what a locale adds (de_DE.UTF-8)."""
    return re.sub("[_ ]", "-", re.split("[.@]", name.strip())[0]).lower()


def check_given(*codes: str | None) -> None:
    """Refuse unknown codes as :func:`check` does; None, for a language that is not given, passes.

    Raises:
        DataError: for an unknown code, with the nearest known one.
    """
    for code in codes:
        if code is not None:
            check(code)


def tag(code: str) -> str:
    """Return the symbol that stands for a language in token sequences: ``<de>``."""
    return f"<{check(code)}>"


def listed(codes: Sequence[str]) -> str:
    """Return codes for a message: of many the first twenty, and how many more there are."""
    more = len(codes) - 20
    return ", ".join(codes) if more < 2 else f"{', '.join(codes[:20])} and {more} more"


def union(*groups: list[str]) -> list[str]:
    """Return the codes of all groups, each once, sorted."""
    return sorted({check(code) for group in groups for code in group})


def name(code: str) -> str:
    """Return the language's English name."""
    return LANGUAGES[check(code)].name


def with_languages(prompt: str, row: Mapping[str, Any]) -> str:
    """Return a prompt, or a part of one, with the names of a row's languages.

    Raises:
        DataError: if the row lacks a language that the prompt names.
    """
    for column in ("source_language", "target_language"):
        if f"{{{column}}}" in prompt:
            if not row.get(column):
                raise DataError(f"row {row.get('id')!r} has no {column}, which the prompt names")
            prompt = prompt.replace(f"{{{column}}}", name(row[column]))
    return prompt


def script(code: str) -> str:
    """Return the ISO 15924 code of the language's script."""
    return LANGUAGES[check(code)].script


def spaced(code: str) -> bool:
    """Tell whether words are divided by spaces."""
    return script(code) not in _UNSPACED_SCRIPTS


def cased(code: str) -> bool:
    """Tell whether the language's script has capital letters."""
    return script(code) in _CASED_SCRIPTS


def sacrebleu_tokenizer(code: str) -> str:
    """Return the name of the tokenizer with which sacreBLEU has to score text of this language.

    Chinese, Japanese and Korean have their own; for other scripts without spaces sacreBLEU has no word segmentation,
    and characters are compared.
    """
    base = check(code).split("-")[0]
    special = {"zh": "zh", "yue": "zh", "ja": "ja-mecab", "ko": "ko-mecab"}
    return special.get(base) or ("13a" if spaced(code) else "char")
