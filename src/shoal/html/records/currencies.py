"""Currencies: codes of ISO 4217, and what people write instead of them. Pure.

A sign such as "$" or "kr" belongs to several countries. Where the page is from decides: its own word for the currency,
then the region of its language, then the end of its host name.
"""

from __future__ import annotations

import re
from functools import lru_cache

# The codes in use, and those on old pages.
_CODES = """
    AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF CLF
    CLP CNY COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD HKD HNL HTG HUF
    IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA MKD MMK
    MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR
    SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX USD UYU UZS VED
    VES VND VUV WST XAF XCD XOF XPF YER ZAR ZMW ZWG
    ATS BEF BYR DEM EEK ESP FIM FRF GRD HRK IEP ITL LTL LVL NLG PTE SIT SKK ZWL
    BTC ETH
"""
CODES = frozenset(_CODES.split())
_NO_CENTS = "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF"
_MILS = "BHD IQD JOD KWD LYD OMR TND"
DECIMALS = dict.fromkeys(_NO_CENTS.split(), 0) | dict.fromkeys(_MILS.split(), 3)  # of the others: 2

_DOLLARS = "USD CAD AUD NZD HKD SGD TWD MXN ARS CLP COP UYU DOP BBD BSD BZD FJD JMD NAD TTD XCD BND KYD"
# What a sign may mean, the likeliest first. "" first: without a hint it is not known.
SIGNS: dict[str, tuple[str, ...]] = {
    "$": tuple(_DOLLARS.split()),
    "£": ("GBP", "EGP", "GIP", "FKP", "SHP", "SYP", "LBP"),
    "₤": ("GBP", "ITL", "TRY"),
    "¥": ("JPY", "CNY"),
    "kr": ("", "SEK", "NOK", "DKK", "ISK"),
    "rs": ("INR", "PKR", "LKR", "NPR", "MUR"),
    "r": ("ZAR",),
    "lei": ("RON", "MDL"),
    "fr": ("CHF", "XOF", "XAF"),
    "din": ("RSD", "DZD", "IQD", "TND"),
    "дин": ("RSD", "MKD"),
    "ريال": ("SAR", "QAR", "OMR", "YER", "IRR"),
    "ر.س": ("SAR",),
    "درهم": ("AED", "MAD"),
    "جنيه": ("EGP", "SDG"),
    "dh": ("AED", "MAD"),
    "dhs": ("AED", "MAD"),
    "bs": ("BOB", "VES"),
    "р": ("RUB",),
    "сом": ("KGS",),
    "元": ("CNY", "TWD", "HKD"),
    "圓": ("TWD", "HKD"),
    "元/月": ("CNY",),
}
_ONE_MEANING = {
    "EUR": "€ euro euros eur. eu€ ευρώ евро",
    "GBP": "gb£ uk£ £stg stg pounds",
    "USD": "us$ u$s u$d usd$ us-$ $us dollars",
    "CAD": "c$ ca$ cdn$ can$ $ca cad$ $cad cdn",
    "AUD": "a$ au$ aud$ aus$ $au $aud",
    "NZD": "nz$ nzd$ $nz",
    "HKD": "hk$ hkd$ 港幣 港币",
    "SGD": "s$ sg$ sgd$",
    "TWD": "nt$ ntd nt 新台幣 台幣",
    "MXN": "mx$ mxn$ mex$ m.n. $mxn $mx",
    "BRL": "r$ reais real",
    "ARS": "ar$ $ar",
    "CLP": "clp$ cl$ $cl",
    "COP": "cop$ col$ $cop",
    "UYU": "$u uy$",
    "DOP": "rd$",
    "JMD": "j$ ja$",
    "TTD": "tt$",
    "BZD": "bz$",
    "XCD": "ec$",
    "NIO": "c$n",
    "PEN": "s/ s/. soles",
    "PYG": "₲ gs gs.",
    "CRC": "₡",
    "JPY": "円 jp¥ 日元 yen",
    "CNY": "rmb cn¥ 人民币 ¥cn yuan",
    "KRW": "₩ 원 won",
    "INR": "₹ rupees inr. रु रू र ரூ",
    "PKR": "₨",
    "LKR": "රු",
    "BDT": "৳ tk tk. টাকা",
    "VND": "₫ đ vnđ đồng vnd. dong",
    "THB": "฿ บาท baht",
    "PHP": "₱ php.",
    "MYR": "rm",
    "IDR": "rp rp. idr.",
    "KHR": "៛",
    "LAK": "₭",
    "MNT": "₮",
    "ILS": "₪ ש״ח ש'ח שח nis ש\"ח",
    "TRY": "₺ tl türk-lirası",
    "RUB": "₽ руб руб. рублей рубля рубль р. rub. rubles",
    "UAH": "₴ грн грн. uah. гривень",
    "KZT": "₸ тг тг. тенге",
    "BYN": "br бел.руб",
    "GEL": "₾",
    "AMD": "֏",
    "AZN": "₼ manat",
    "UZS": "so'm сум сўм",
    "BGN": "лв лв. lv lv. лева",
    "MKD": "ден ден.",
    "BAM": "km",
    "HRK": "kn",
    "CZK": "kč kč. kc",
    "PLN": "zł zl złotych zł.",
    "HUF": "ft ft. forint huf.",
    "RON": "ron. lei.",
    "CHF": "fr. sfr sfr. chf. franken",
    "SEK": "sek. kronor svenska-kr",
    "NOK": "nok. nkr",
    "DKK": "dkk. dkr kroner",
    "ISK": "ikr",
    "AED": "د.إ dirham dirhams",
    "KWD": "kd kd. د.ك",
    "BHD": "bd bd. د.ب",
    "OMR": "ر.ع ر.ع.",
    "QAR": "qr qr. ر.ق",
    "SAR": "sr sr. riyal ﷼",
    "EGP": "le l.e l.e. ج.م ج.م. e£",
    "JOD": "jd jd. د.ا",
    "MAD": "د.م د.م.",
    "TND": "dt د.ت",
    "NGN": "₦",
    "GHS": "₵ gh₵ gh¢",
    "KES": "ksh kshs ksh. kes.",
    "UGX": "ush",
    "TZS": "tsh",
    "ZAR": "zar. rand",
    "XOF": "cfa fcfa",
    "AFN": "؋",
    "ALL": "lek",
    "BIF": "fbu",
    "BTN": "nu nu.",
    "BOB": "$b",
    "DJF": "fdj",
    "DZD": "دج د.ج",
    "ERN": "nfk",
    "GNF": "fg",
    "GTQ": "q",
    "IQD": "ع.د د.ع",
    "IRR": "ریال",
    "LBP": "ل.ل",
    "LRD": "ld",
    "LYD": "ل.د د.ل",
    "MOP": "mop$",
    "MRU": "um",
    "MVR": "rf",
    "MWK": "mk",
    "PAB": "b/.",
    "RSD": "dinara dinar rsd. din.",
    "STN": "db",
    "SYP": "ل.س",
    "TOP": "t$",
    "VUV": "vt",
    "ZMW": "zk",
    "DEM": "dm",
    "BTC": "₿",
    "FRF": "₣",
    "ESP": "₧",
}
SIGNS |= {sign: (code,) for code, signs in _ONE_MEANING.items() for sign in signs.split()}
SIGNS |= {code.casefold(): (code,) for code in CODES}

_REGIONS = """
    US:USD CA:CAD AU:AUD NZ:NZD HK:HKD SG:SGD TW:TWD MX:MXN AR:ARS CL:CLP CO:COP UY:UYU DO:DOP GB:GBP UK:GBP EG:EGP
    JP:JPY CN:CNY SE:SEK NO:NOK DK:DKK IS:ISK IN:INR PK:PKR LK:LKR NP:NPR MU:MUR RO:RON MD:MDL CH:CHF LI:CHF SN:XOF
    CI:XOF CM:XAF RS:RSD DZ:DZD IQ:IQD TN:TND MK:MKD SA:SAR QA:QAR OM:OMR YE:YER IR:IRR AE:AED MA:MAD SD:SDG BO:BOB
    VE:VES ZA:ZAR KG:KGS JM:JMD TT:TTD BB:BBD BS:BSD BZ:BZD FJ:FJD NA:NAD BN:BND KY:KYD GI:GIP FK:FKP SY:SYP LB:LBP
    TR:TRY BR:BRL KR:KRW IE:EUR
"""
REGIONS = {pair[:2]: pair[3:] for pair in _REGIONS.split()}
# Where a language belongs to one country, as far as signs are concerned.
_LANGUAGES = {
    "ja": "JPY",
    "zh": "CNY",
    "sv": "SEK",
    "nb": "NOK",
    "nn": "NOK",
    "no": "NOK",
    "da": "DKK",
    "is": "ISK",
    "hi": "INR",
    "ur": "PKR",
    "si": "LKR",
    "ne": "NPR",
    "ro": "RON",
}
_REGION = re.compile(r"[-_]([A-Za-z]{2})\b")


def code_of(text: str, hint: str | None = None) -> str | None:
    """The currency that a word or sign means; `hint` is a code that decides between several meanings."""
    meanings = SIGNS.get(text.strip().casefold())
    if not meanings:
        return None
    return hint if hint in meanings else meanings[0] or None


@lru_cache(maxsize=1024)
def local_currency(language: str, host: str) -> str | None:
    """The currency where a page is at home, by "en-CA", "sv" or "shop.example.com.au"; None: it does not say."""
    found = _REGION.search(language[:20])
    if found and (code := REGIONS.get(found[1].upper())):
        return code
    last = host.rstrip(".").rpartition(".")[2].upper()
    if code := REGIONS.get(last):
        return code
    return _LANGUAGES.get(language[:2].lower())
