"""Whether something can be bought: by schema.org's names in any spelling, or by the words of shops. Pure."""

from __future__ import annotations

import re

# schema.org's ItemAvailability and what feeds and OpenGraph use, without blanks and signs.
_NAMES = {
    "instock": "in_stock",
    "available": "in_stock",
    "availablefororder": "in_stock",
    "availability": "in_stock",
    "yes": "in_stock",
    "true": "in_stock",
    "1": "in_stock",
    "outofstock": "out_of_stock",
    "oos": "out_of_stock",
    "soldout": "out_of_stock",
    "unavailable": "out_of_stock",
    "notavailable": "out_of_stock",
    "notinstock": "out_of_stock",
    "nostock": "out_of_stock",
    "no": "out_of_stock",
    "false": "out_of_stock",
    "0": "out_of_stock",
    "preorder": "preorder",
    "presale": "preorder",
    "pending": "preorder",
    "backorder": "backorder",
    "backordered": "backorder",
    "discontinued": "discontinued",
    "limitedavailability": "limited",
    "limited": "limited",
    "lowstock": "limited",
    "onlineonly": "online_only",
    "instoreonly": "in_store_only",
    "madetoorder": "made_to_order",
    "reserved": "reserved",
}
AVAILABILITIES = tuple(dict.fromkeys(_NAMES.values()))

# Looked for in this order, because "not in stock" holds "in stock". Parts of words are meant: "Ausverkaufter Artikel".
_PHRASES: tuple[tuple[str, str], ...] = (
    (
        "discontinued",
        "discontinued|no longer available|no longer for sale|no longer in stock|"
        "nicht mehr lieferbar|nicht mehr verfügbar|nicht mehr"
        " erhältlich|auslaufartikel|descatalogado|fuera de catálogo|n'est plus disponible|plus commercialisé|fuori"
        " produzione|fora de linha|niet meer leverbaar|uit assortiment|wycofany|снят с производства|снято с"
        " производства|utgått|udgået|poistunut|生産終了|停产",
    ),
    (
        "preorder",
        "pre-order|preorder|pre order|vorbestell|vorverkauf|précommande|pre-commande|reserva anticipada|preventa|"
        "pré-venda|pre-venda|prenota|preordin|voorbestel|förhandsboka|forudbestil|forhåndsbestill|ennakkotila|"
        "przedsprzedaż|předobjedn|előrendel|precomand|предзаказ|передзамовлення|предварителна поръчка|"
        "ön sipariş|προπαραγγελία|הזמנה מוקדמת|طلب مسبق|الطلب المسبق|予約受付|予約商品|예약 판매|예약판매|预售|預購|"
        "đặt trước|สั่งจองล่วงหน้า|พรีออเดอร์",
    ),
    (
        "backorder",
        "back-order|backorder|back order|nachbestell|wird nachgeliefert|sur commande|en réapprovisionnement|"
        "na objednávku|na zamówienie|под заказ|restordre|取り寄せ",
    ),
    (
        "out_of_stock",
        r"\b0 (?:pcs |items? |units? )?(?:in stock|available|left|auf lager|en stock)|\bstock: ?0\b|"
        "not yet available|not currently|coming soon|nicht sofort|noch nicht|"
        "out of stock|out-of-stock|sold out|sold-out|not in stock|not available|unavailable|no stock|temporarily out|"
        "currently unavailable|notify me when|email me when|"
        "ausverkauft|nicht auf lager|nicht lieferbar|nicht verfügbar|nicht vorrätig|vergriffen|derzeit nicht|"
        "momentan nicht|leider nicht|"
        "épuisé|epuisé|en rupture|rupture de stock|indisponible|non disponible|pas en stock|hors stock|"
        "agotado|agotada|sin existencias|sin stock|no disponible|fuera de stock|no hay stock|"
        "esaurito|esaurita|non disponibile|terminato|non in stock|"
        "esgotado|esgotada|indisponível|indisponivel|sem estoque|sem stock|fora de estoque|"
        "uitverkocht|niet op voorraad|niet leverbaar|niet beschikbaar|"
        "slutsåld|slut i lager|ej i lager|inte i lager|udsolgt|ikke på lager|utsolgt|ikke tilgjengelig|"
        "loppu|ei varastossa|ei saatavilla|"
        "wyprzedan|brak w magazynie|niedostępn|produkt niedostępny|brak towaru|"
        "vyprodáno|vyprodané|není skladem|nie je skladom|nedostupn|vypredané|elfogyott|nincs készleten|nincs raktáron|"
        "stoc epuizat|indisponibil|nu este în stoc|nu este in stoc|"
        "нет в наличии|распродан|отсутствует|закончился|немає в наявності|продано|няма наличност|"
        "няма в наличност|не е в наличност|изчерпан|"
        "rasprodato|nije dostupn|rasprodan|nema na zalih|ni na zalogi|"
        "tükendi|stokta yok|stok yok|εξαντλη|μη διαθέσιμο|אזל|לא במלאי|غير متوفر|نفد|نفذ|"
        "売り切れ|在庫なし|在庫切れ|完売|品切れ|품절|缺货|缺貨|售罄|无货|無貨|已售完|補貨中|"
        "hết hàng|stok habis|habis terjual|หมด",
    ),
    (
        "limited",
        r"\bonly \d{1,2} left|"
        "only a few left|low stock|limited availability|almost gone|last one|last items|few left|"
        "nur noch|wenige verfügbar|geringer bestand|plus que|derniers exemplaires|stock limité|últimas unidades|"
        "pocas unidades|quedan|ultimi pezzi|ultimi disponibili|últimas peças|laatste stuks|beperkt|fåtal|få kvar|"
        "ostatnie sztuki|poslední kus|残りわずか|残り",
    ),
    (
        "in_stock",
        "in stock|in-stock|available|ready to ship|ships within|ships today|add to cart|add to bag|add to basket|"
        "auf lager|lagernd|vorrätig|verfügbar|lieferbar|sofort|ab lager|in den warenkorb|erhältlich|"
        "en stock|disponible|expédié sous|ajouter au panier|hay stock|en existencia|añadir al carrito|"
        "disponibile|in magazzino|aggiungi al carrello|disponível|disponivel|em estoque|em stock|"
        "op voorraad|leverbaar|beschikbaar|in winkelwagen|i lager|finns i lager|på lager|varastossa|saatavilla|"
        "dostępn|na stanie|w magazynie|skladem|skladom|na sklade|dostupn|raktáron|készleten|elérhető|"
        "în stoc|in stoc|disponibil|в наличии|есть в наличии|на складе|в наявності|на склад|в наличност|"
        "na zalihi|na zalogi|na stanju|stokta|stoklarda|διαθέσιμο|σε απόθεμα|במלאי|متوفر|متاح|"
        "在庫あり|在庫有|재고 있음|구매 가능|有货|有貨|现货|現貨|còn hàng|tersedia|stok ada|มีสินค้า",
    ),
)
_WORDS = re.compile("|".join(f"(?P<{name}>{phrases})" for name, phrases in _PHRASES))
_ORDER = {name: place for place, (name, _) in enumerate(_PHRASES)}
_SIGNS = re.compile(r"[\W_]+")
_LOOK = 500  # characters of a text that are looked at
_NAME = 100  # characters of an address or name


def availability_of(text: str) -> str | None:
    """One of AVAILABILITIES, for "https://schema.org/InStock", "in stock", "Sold out", "ausverkauft" and the like; None
    if the text says nothing of it."""
    text = text.strip()[:_LOOK].casefold()
    if len(text) <= _NAME:
        name = text.rstrip("/").rpartition("/")[2].rpartition("#")[2].rpartition(":")[2]
        if found := _NAMES.get(_SIGNS.sub("", name)):
            return found
    found_here = {str(match.lastgroup) for match in _WORDS.finditer(text)}
    return min(found_here, key=_ORDER.__getitem__, default=None)
