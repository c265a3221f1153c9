"""Pages whose visible parts are marked up: microdata and RDFa Lite."""

from __future__ import annotations

from html import escape

from shoal.testing.shops.jsonld_shapes import Shape
from shoal.testing.shops.layouts import related
from shoal.testing.shops.product_view import View

_OFFER = 'itemprop="offers" itemscope itemtype="http://schema.org/Offer"'
_PRODUCT = 'itemscope itemtype="http://schema.org/Product"'


def _struck(view: View, template: str = "<del>{}</del> ") -> str:
    return template.format(view.text(view.product.was)) if view.product.was is not None else ""


def microdata_meta(view: View) -> str:
    """As Magento does: figures in `meta`, availability in a link."""
    return f"""<div class="column main" {_PRODUCT}><h1 class="page-title"><span itemprop="name">{view.name}</span></h1>
<div class="price-box" {_OFFER}><span class="price">{view.price}</span>{_struck(view)}<meta itemprop="price" content="{view.plain}">
<meta itemprop="priceCurrency" content="{view.product.currency}"><link itemprop="availability" href="http://schema.org/{view.schema}"></div>
<div class="sku" itemprop="sku">{view.product.sku}</div><p>{view.stock}</p></div>{related(view)}"""


def microdata_content(view: View) -> str:
    """As PrestaShop did: the visible price with a `content`."""
    return f"""<section id="main" itemscope itemtype="https://schema.org/Product"><meta itemprop="url" content="{view.url}"><h1 class="h1" itemprop="name">{view.name}</h1>
<div class="product-price h5" itemprop="offers" itemscope itemtype="https://schema.org/Offer"><link itemprop="availability" href="https://schema.org/{view.schema}"/>
<meta itemprop="priceCurrency" content="{view.product.currency}">{_struck(view, '<span class="regular-price">{}</span>')}<div class="current-price">
<span itemprop="price" content="{view.plain}">{view.price}</span></div></div><span itemprop="sku">{view.product.sku}</span>
<div itemprop="aggregateRating" itemscope itemtype="https://schema.org/AggregateRating"><meta itemprop="ratingValue" content="4.5"><meta itemprop="reviewCount" content="8"></div></section>{related(view)}"""


def microdata_text(view: View) -> str:
    """Only what is visible: price with its sign, availability in words."""
    return f"""<div {_PRODUCT}><h1 itemprop="name">{view.name}</h1><span itemprop="brand">{escape(view.product.brand)}</span>
<div {_OFFER}>{_struck(view)}<span itemprop="price">{view.price}</span> <span itemprop="availability">{view.stock}</span></div>
<span itemprop="productID">{view.product.sku}</span></div>{related(view)}"""


def microdata_itemref(view: View) -> str:
    """The offer is elsewhere on the page, and named by its id."""
    return f"""<div {_PRODUCT} itemref="offer-box sku-box"><h1 itemprop="name">{view.name}</h1><img itemprop="image" src="{view.image}" alt=""></div>
<div class="sidebar"><div id="offer-box" {_OFFER}><data itemprop="price" value="{view.plain}">{view.price}</data>{_struck(view)}
<meta itemprop="priceCurrency" content="{view.product.currency}"><link itemprop="availability" href="https://schema.org/{view.schema}"><p>{view.stock}</p></div>
<div id="sku-box">Ref. <span itemprop="sku">{view.product.sku}</span></div></div>{related(view)}"""


def microdata_range(view: View) -> str:
    """AggregateOffer: from the lowest price."""
    return f"""<main {_PRODUCT}><h1 itemprop="name">{view.name}</h1><div itemprop="offers" itemscope itemtype="http://schema.org/AggregateOffer">{escape(view.words.since)}
<span itemprop="lowPrice" content="{view.plain}">{view.price}</span> – <span itemprop="highPrice" content="{view.money.plain(view.product.price * 2)}">{view.text(view.product.price * 2)}</span>
<meta itemprop="priceCurrency" content="{view.product.currency}"><meta itemprop="availability" content="{view.schema}"><meta itemprop="offerCount" content="4"></div>
<p class="state">{view.stock}</p><span itemprop="sku">{view.product.sku}</span></main>{related(view)}"""


def microdata_neighbours(view: View) -> str:
    """Recommended products are marked up like the product itself, and come first."""
    card = (
        '<li itemscope itemtype="http://schema.org/Product"><a itemprop="url" href="{url}"><span itemprop="name">{name}</span></a>'
        '<span itemprop="offers" itemscope itemtype="http://schema.org/Offer"><span itemprop="price">{price}</span></span></li>'
    )
    return f"""{related(view, card)}<div id="product-page" itemscope itemtype="http://schema.org/Product"><link itemprop="url" href="{view.url}">
<h1 itemprop="name">{view.name}</h1><div {_OFFER}><span itemprop="price" content="{view.plain}">{view.price}</span><meta itemprop="priceCurrency" content="{view.product.currency}">
<link itemprop="availability" href="http://schema.org/{view.schema}"></div><p>{view.stock}</p><span itemprop="sku">{view.product.sku}</span></div>"""


def microdata_old_and_new(view: View) -> str:
    """As an old WooCommerce did: one property around the crossed-out price and the new one."""
    old = _struck(view, '<del><span class="amount">{}</span></del> ')
    price = f'{old}<ins><span class="amount">{view.price}</span></ins>'
    return f"""<div {_PRODUCT} class="product"><h1 itemprop="name" class="product_title">{view.name}</h1><div {_OFFER}><p itemprop="price" class="price">{price}</p>
<link itemprop="availability" href="http://schema.org/{view.schema}"/></div><p class="stock">{view.stock}</p><span class="sku" itemprop="sku">{view.product.sku}</span></div>{related(view)}"""


def microdata_types(view: View) -> str:
    """Several types, a property with several names, and a review with a rating of its own."""
    return f"""<article itemscope itemtype="https://schema.org/Product https://schema.org/IndividualProduct"><h1 itemprop="name alternateName">{view.name}</h1>
<div itemprop="review" itemscope itemtype="https://schema.org/Review"><span itemprop="name">Fine!</span><span itemprop="author">Ann</span></div>
<div itemprop="offers" itemscope itemtype="https://schema.org/Offer"><meta itemprop="priceCurrency" content="{view.product.currency}"><span itemprop="price">{view.plain}</span>
<meta itemprop="availability" content="https://schema.org/{view.schema}"><meta itemprop="sku" content="{view.product.sku}"></div><p>{view.stock}</p></article>{related(view)}"""


def rdfa(view: View) -> str:
    return f"""<div vocab="https://schema.org/" typeof="Product"><h1 property="name">{view.name}</h1><span property="sku">{view.product.sku}</span>
<div property="offers" typeof="Offer"><span property="price" content="{view.plain}">{view.price}</span>{_struck(view)}<meta property="priceCurrency" content="{view.product.currency}">
<link property="availability" href="https://schema.org/{view.schema}"><span>{view.stock}</span></div></div>{related(view)}"""


def rdfa_prefix(view: View) -> str:
    """With a prefix, and an address for the resource."""
    return f"""<div prefix="s: http://schema.org/" typeof="s:Product" resource="#product"><h1 property="s:name">{view.name}</h1>
<div property="s:offers" typeof="s:Offer"><span property="s:price">{view.plain}</span> <span property="s:priceCurrency">{view.product.currency}</span>
<a property="s:availability" href="http://schema.org/{view.schema}">{view.stock}</a></div><i property="s:sku">{view.product.sku}</i></div>{related(view)}"""


ANNOTATED: dict[str, Shape] = {
    shape.__name__.replace("_", " "): shape
    for shape in (
        microdata_meta,
        microdata_content,
        microdata_text,
        microdata_itemref,
        microdata_range,
        microdata_neighbours,
        microdata_old_and_new,
        microdata_types,
        rdfa,
        rdfa_prefix,
    )
}
