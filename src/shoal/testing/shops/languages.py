"""The words of a shop in its language."""

from __future__ import annotations

from msgspec import Struct


class Words(Struct, frozen=True):
    things: tuple[str, ...]  # what is sold
    in_stock: str
    sold_out: tuple[str, ...]  # a shop uses one of them
    preorder: str
    buy: str
    following: str  # the link to the next page
    more: str  # a link that loads more
    related: str
    home: str
    reviews: str
    was: str  # before a crossed-out price
    since: str  # before the lowest of several prices
    shipping: str  # with {} for an amount


def _words(line: str, sold_out: str, things: str) -> Words:
    """Of texts with `|` between the words."""
    in_stock, preorder, buy, following, more, related, home, reviews, was, since, shipping = line.split("|")
    return Words(
        tuple(things.split("|")),
        in_stock,
        tuple(sold_out.split("|")),
        preorder,
        buy,
        following,
        more,
        related,
        home,
        reviews,
        was,
        since,
        shipping,
    )


WORDS = {
    "en": _words(
        "In stock|Pre-order now|Add to cart|Next|Load more|You may also like|Home|reviews|Was|From|Free delivery over {}",
        "Sold out|Out of stock|Currently unavailable",
        'Lamp|Armchair & Stool|Kettle 1.7 l|Wall Clock 12"',
    ),
    "de": _words(
        "Auf Lager|Vorbestellbar|In den Warenkorb|Weiter|Mehr laden|Das könnte Ihnen auch gefallen|Startseite"
        "|Bewertungen|statt|ab|Versandkostenfrei ab {}",
        "Ausverkauft|Nicht vorrätig|Derzeit nicht verfügbar",
        "Stehlampe|Bürostuhl|Küchenwaage|Schüssel groß",
    ),
    "fr": _words(
        "En stock|Précommande|Ajouter au panier|Suivant|Voir plus|Vous aimerez aussi|Accueil|avis|au lieu de|à partir de"
        "|Livraison offerte dès {}",
        "Épuisé|Rupture de stock|Indisponible",
        "Lampe d'été|Théière|Étagère|Fauteuil «Rivière»",
    ),
    "es": _words(
        "En existencias|Preventa|Añadir al carrito|Siguiente|Cargar más|También te puede gustar|Inicio|opiniones|antes"
        "|desde|Envío gratis desde {}",
        "Agotado|Sin existencias",
        "Lámpara|Sillón|Reloj de pared|Taza pequeña",
    ),
    "it": _words(
        "Disponibile|Preordina|Aggiungi al carrello|Successivo|Carica altri|Potrebbe piacerti|Home|recensioni|invece di"
        "|da|Spedizione gratuita da {}",
        "Esaurito|Non disponibile",
        "Lampada|Poltrona|Caffettiera|Specchio città",
    ),
    "nl": _words(
        "Op voorraad|Pre-order|In winkelwagen|Volgende|Meer laden|Misschien ook leuk|Home|beoordelingen|van|vanaf"
        "|Gratis verzending vanaf {}",
        "Uitverkocht|Niet op voorraad",
        "Lamp|Fauteuil|Klok|Theepot",
    ),
    "pt": _words(
        "Em estoque|Pré-venda|Adicionar ao carrinho|Próximo|Carregar mais|Você também pode gostar|Início|avaliações|de"
        "|a partir de|Frete grátis acima de {}",
        "Esgotado|Fora de estoque",
        "Luminária|Cadeira|Relógio|Xícara de chá",
    ),
    "pl": _words(
        "W magazynie|Przedsprzedaż|Do koszyka|Następna|Pokaż więcej|Zobacz też|Strona główna|opinie|zamiast|od"
        "|Darmowa dostawa od {}",
        "Wyprzedane|Brak w magazynie|Produkt niedostępny",
        "Lampa|Krzesło|Zegar ścienny|Półka dębowa",
    ),
    "cs": _words(
        "Skladem|Předobjednávka|Do košíku|Další|Načíst další|Mohlo by se líbit|Domů|hodnocení|místo|od|Doprava zdarma od {}",
        "Vyprodáno|Není skladem",
        "Lampa|Židle|Hodiny|Šálek čaje",
    ),
    "sv": _words(
        "I lager|Förhandsboka|Lägg i varukorg|Nästa|Visa fler|Du kanske också gillar|Start|recensioner|ord. pris|från"
        "|Fri frakt över {}",
        "Slutsåld|Ej i lager",
        "Lampa|Fåtölj|Väggklocka|Tekanna",
    ),
    "no": _words(
        "På lager|Forhåndsbestill|Legg i handlekurv|Neste|Vis flere|Liker du kanske|Hjem|anmeldelser|før|fra"
        "|Fri frakt over {}",
        "Utsolgt|Ikke på lager",
        "Lampe|Lenestol|Klokke|Krus blått",
    ),
    "da": _words(
        "På lager|Forudbestil|Læg i kurv|Næste|Vis flere|Måske også noget|Forside|anmeldelser|før|fra|Fri fragt over {}",
        "Udsolgt|Ikke på lager",
        "Lampe|Lænestol|Vægur|Krus",
    ),
    "fi": _words(
        "Varastossa|Ennakkotilaa|Lisää ostoskoriin|Seuraava|Näytä lisää|Saatat pitää myös|Etusivu|arvostelua|norm.|alkaen"
        "|Ilmainen toimitus yli {}",
        "Loppuunmyyty|Ei varastossa",
        "Lamppu|Nojatuoli|Seinäkello|Pöytä",
    ),
    "hu": _words(
        "Raktáron|Előrendelhető|Kosárba|Következő|Továbbiak|Önnek ajánljuk|Főoldal|vélemény|helyett|-tól"
        "|Ingyenes szállítás {} felett",
        "Elfogyott|Nincs raktáron",
        "Lámpa|Szék|Falióra|Bögre kék",
    ),
    "ro": _words(
        "În stoc|Precomandă|Adaugă în coș|Următoarea|Încarcă mai multe|Îți poate plăcea|Acasă|recenzii|în loc de|de la"
        "|Livrare gratuită peste {}",
        "Stoc epuizat|Indisponibil",
        "Lampă|Scaun|Ceas|Raft",
    ),
    "tr": _words(
        "Stokta var|Ön sipariş|Sepete ekle|Sonraki|Daha fazla|Bunlar da ilginizi çekebilir|Ana sayfa|yorum|yerine|başlayan"
        "|{} üzeri kargo bedava",
        "Tükendi|Stokta yok",
        "Lamba|Koltuk|Duvar saati|Çaydanlık",
    ),
    "ru": _words(
        "В наличии|Предзаказ|В корзину|Далее|Показать ещё|Вам может понравиться|Главная|отзывов|было|от"
        "|Бесплатная доставка от {}",
        "Нет в наличии|Распродано",
        "Лампа|Кресло|Часы|Чайник",
    ),
    "uk": _words(
        "В наявності|Передзамовлення|До кошика|Далі|Показати ще|Вам може сподобатися|Головна|відгуків|було|від"
        "|Безкоштовна доставка від {}",
        "Немає в наявності|Розпродано",
        "Лампа|Крісло|Годинник|Чайник",
    ),
    "el": _words(
        "Διαθέσιμο|Προπαραγγελία|Στο καλάθι|Επόμενο|Περισσότερα|Μπορεί να σας αρέσει|Αρχική|κριτικές|από|από"
        "|Δωρεάν αποστολή άνω των {}",
        "Εξαντλημένο|Μη διαθέσιμο",
        "Λάμπα|Καρέκλα|Ρολόι|Κούπα",
    ),
    "ja": _words(
        "在庫あり|予約受付中|カートに入れる|次へ|もっと見る|おすすめ商品|ホーム|レビュー|通常価格|から|{}以上で送料無料",
        "売り切れ|在庫切れ|品切れ",
        "ランプ|椅子|壁掛け時計|急須",
    ),
    "zh": _words(
        "有货|预售|加入购物车|下一页|加载更多|猜你喜欢|首页|评价|原价|起|满{}包邮",
        "售罄|缺货",
        "台灯|椅子|挂钟|茶壶",
    ),
    "ko": _words(
        "재고 있음|예약 판매|장바구니 담기|다음|더 보기|추천 상품|홈|리뷰|정가|부터|{} 이상 무료배송",
        "품절|일시품절",
        "램프|의자|벽시계|찻주전자",
    ),
    "ar": _words(
        "متوفر|طلب مسبق|أضف إلى السلة|التالي|عرض المزيد|قد يعجبك أيضا|الرئيسية|تقييم|بدلا من|من|شحن مجاني فوق {}",
        "نفدت الكمية|غير متوفر",
        "مصباح|كرسي|ساعة|إبريق",
    ),
    "he": _words(
        "במלאי|הזמנה מוקדמת|הוסף לסל|הבא|טען עוד|אולי תאהבו גם|דף הבית|ביקורות|במקום|החל מ|משלוח חינם מעל {}",
        "אזל מהמלאי|לא במלאי",
        "מנורה|כיסא|שעון|ספל",
    ),
    "id": _words(
        "Stok tersedia|Pre-order|Tambah ke keranjang|Berikutnya|Muat lagi|Mungkin Anda suka|Beranda|ulasan|dari|mulai"
        "|Gratis ongkir di atas {}",
        "Stok habis|Habis terjual",
        "Lampu|Kursi|Jam dinding|Teko",
    ),
    "vi": _words(
        "Còn hàng|Đặt trước|Thêm vào giỏ|Tiếp|Xem thêm|Có thể bạn thích|Trang chủ|đánh giá|giá gốc|từ|Miễn phí giao hàng từ {}",
        "Hết hàng|Tạm hết hàng",
        "Đèn|Ghế|Đồng hồ|Ấm trà",
    ),
    "th": _words(
        "มีสินค้า|สั่งจองล่วงหน้า|หยิบใส่ตะกร้า|ถัดไป|ดูเพิ่มเติม|สินค้าแนะนำ|หน้าแรก|รีวิว|ปกติ|เริ่มต้น|ส่งฟรีเมื่อซื้อครบ {}",
        "สินค้าหมด",
        "โคมไฟ|เก้าอี้|นาฬิกา|กาน้ำชา",
    ),
    "bg": _words(
        "В наличност|Предварителна поръчка|Добави в количката|Следваща|Зареди още|Може да харесате|Начало|отзива|вместо|от"
        "|Безплатна доставка над {}",
        "Изчерпан|Няма в наличност",
        "Лампа|Стол|Часовник|Чайник",
    ),
}
