"""How prices are written in many countries: the sign before or behind, separators, cents or none."""

from __future__ import annotations

from decimal import Decimal

from msgspec import Struct

NBSP, NARROW = "\u00a0", "\u202f"
_ARABIC = str.maketrans("0123456789", "٠١٢٣٤٥٦٧٨٩")


class Money(Struct, frozen=True):
    """One way to write a price. `{}` in the pattern is where the number goes."""

    currency: str
    pattern: str
    group: str = ","
    point: str = "."
    digits: int = 2  # behind the decimal point
    whole: str | None = None  # what stands for no cents, such as ",–"; None: the zeros are written
    indian: bool = False  # 12,34,567
    arabic: bool = False  # Arabic-Indic digits
    scale: int = 1  # how much a thing costs here, against a euro

    def number(self, price: Decimal) -> str:
        """Without the currency."""
        cents = f"{price:.{self.digits}f}".partition(".")[2]
        text = self._grouped(str(int(price)))
        if self.whole is not None and not cents.strip("0"):
            text += self.whole
        elif cents:
            text += self.point + cents
        return text.translate(_ARABIC) if self.arabic else text

    def text(self, price: Decimal) -> str:
        return self.pattern.replace("{}", self.number(price))

    def plain(self, price: Decimal) -> str:
        """As programs write it: 1234.50."""
        return f"{price:.{self.digits}f}"

    def _grouped(self, digits: str) -> str:
        if self.indian and len(digits) > 3:
            head, tail = digits[:-3], digits[-3:]
            pairs = [head[max(0, end - 2) : end] for end in range(len(head), 0, -2)]
            return self.group.join([*reversed(pairs), tail])
        threes = [digits[max(0, end - 3) : end] for end in range(len(digits), 0, -3)]
        return self.group.join(reversed(threes))


MONEY = {
    "us": Money("USD", "${}"),
    "us code": Money("USD", "USD {}"),
    "us behind": Money("USD", "{} USD", whole=""),
    "us long": Money("USD", "US${}"),
    "uk": Money("GBP", "£{}"),
    "uk entity": Money("GBP", "&pound;{}"),
    "ireland": Money("EUR", "€{}"),
    "germany": Money("EUR", f"{{}}{NBSP}€", ".", ","),
    "germany code": Money("EUR", "EUR {}", ".", ","),
    "germany entity": Money("EUR", "{}&nbsp;&euro;", ".", ","),
    "austria": Money("EUR", "€ {}", ".", ",", whole=",–"),
    "france": Money("EUR", f"{{}}{NBSP}€", NARROW, ","),
    "france spaces": Money("EUR", "{} €", NBSP, ","),
    "spain": Money("EUR", "{} €", ".", ","),
    "spain bare": Money("EUR", "{}€", ".", ","),
    "italy": Money("EUR", "€ {}", ".", ","),
    "netherlands": Money("EUR", "€ {}", ".", ",", whole=",-"),
    "finland": Money("EUR", "{} €", NBSP, ","),
    "switzerland": Money("CHF", "CHF {}", "'", "."),
    "switzerland dash": Money("CHF", "CHF {}", "’", ".", whole=".–"),
    "sweden": Money("SEK", "{} kr", " ", ",", whole="", scale=10),
    "sweden dash": Money("SEK", "{}", " ", ",", digits=0, whole=":-", scale=10),
    "norway": Money("NOK", "kr {}", NBSP, ",", whole=",-", scale=10),
    "denmark": Money("DKK", "{} kr.", ".", ",", scale=7),
    "poland": Money("PLN", "{} zł", " ", ",", scale=4),
    "czechia": Money("CZK", "{} Kč", NBSP, ",", digits=0, scale=25),
    "hungary": Money("HUF", "{} Ft", " ", ",", digits=0, scale=400),
    "romania": Money("RON", "{} lei", ".", ",", scale=5),
    "turkey": Money("TRY", "{} TL", ".", ",", scale=30),
    "turkey sign": Money("TRY", "₺{}", ".", ",", scale=30),
    "russia": Money("RUB", "{} ₽", " ", ",", whole="", scale=90),
    "ukraine": Money("UAH", "{} грн", " ", ",", whole="", scale=40),
    "greece": Money("EUR", "{} €", ".", ","),
    "japan": Money("JPY", "¥{}", digits=0, scale=160),
    "japan kanji": Money("JPY", "{}円", digits=0, scale=160),
    "china": Money("CNY", "¥{}", scale=8),
    "korea": Money("KRW", "{}원", digits=0, scale=1_400),
    "korea sign": Money("KRW", "₩{}", digits=0, scale=1_400),
    "india": Money("INR", "₹{}", indian=True, scale=90),
    "india short": Money("INR", "Rs. {}", indian=True, whole="", scale=90),
    "brazil": Money("BRL", "R$ {}", ".", ",", scale=6),
    "mexico": Money("MXN", "${} MXN", scale=20),
    "canada": Money("CAD", "C${}"),
    "quebec": Money("CAD", "{} $ CA", NBSP, ","),
    "australia": Money("AUD", "A${}"),
    "chile": Money("CLP", "CLP ${}", ".", ",", digits=0, scale=1_000),
    "indonesia": Money("IDR", "Rp {}", ".", ",", digits=0, scale=17_000),
    "vietnam": Money("VND", "{}₫", ".", ",", digits=0, scale=27_000),
    "thailand": Money("THB", "฿{}", scale=38),
    "israel": Money("ILS", "{} ₪", scale=4),
    "emirates": Money("AED", "AED {}", scale=4),
    "egypt": Money("EGP", "{} ج.م.", "٬", "٫", arabic=True, scale=50),
    "kuwait": Money("KWD", "KWD {}", digits=3),
    "south africa": Money("ZAR", "R {}", " ", ".", scale=20),
    "bulgaria": Money("BGN", "{} лв.", " ", ",", scale=2),
}
