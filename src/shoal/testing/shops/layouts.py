"""What people see of a product, in the manner of many shop systems. None of it is marked up for machines.

Around the price there is what real pages have: a crossed-out one, instalments, the price of a unit, shipping costs, and other
products with prices of their own.
"""

from __future__ import annotations

from decimal import Decimal
from html import escape

from shoal.testing.shops.jsonld_shapes import Shape
from shoal.testing.shops.product_view import View


def _old(view: View, template: str) -> str:
    """The crossed-out price, if there is one."""
    return template.format(view.text(view.product.was)) if view.product.was is not None else ""


def _is_gone(view: View) -> bool:
    return view.product.availability in ("out_of_stock", "discontinued")


def related(
    view: View, template: str = '<li><a href="{url}">{name}</a> <span class="price">{price}</span></li>'
) -> str:
    items = "".join(
        template.format(url=escape(url), name=escape(one.name), price=view.text(one.price))
        for one, url in view.related
    )
    return f'<aside class="recommendations"><h2>{escape(view.words.related)}</h2><ul>{items}</ul></aside>'


def banner(view: View) -> str:
    over = view.text(Decimal(50 * view.money.scale))
    return f'<div class="announcement">{escape(view.words.shipping).replace("{}", over)}</div>'


def dawn(view: View) -> str:
    sale = " price--on-sale" if view.product.was is not None else ""
    gone = " price--sold-out" if _is_gone(view) else ""
    button = view.stock if view.product.availability != "in_stock" else escape(view.words.buy)
    return f"""<div class="product__info-container">
  <p class="product__text caption">{escape(view.product.brand)}</p>
  <div class="product__title"><h1>{view.name}</h1></div>
  <div id="price-template"><div class="price price--large{sale}{gone}">
    <div class="price__container">{_old(view, '<s class="price-item price-item--regular">{}</s>')}
      <span class="price-item price-item--last">{view.price}</span></div>
    <small class="unit-price">({view.text(view.product.price / 2)} / kg)</small></div></div>
  <p class="product__inventory">{view.stock}</p>
  <form action="/cart/add" method="post"><button type="submit" name="add" {"disabled" if _is_gone(view) else ""}>{button}</button></form>
</div>{related(view)}"""


def woo(view: View) -> str:
    kind = {"in_stock": "in-stock", "preorder": "available-on-backorder"}.get(
        view.product.availability, "out-of-stock"
    )
    now = f'<span class="woocommerce-Price-amount amount"><bdi>{view.price}</bdi></span>'
    old = _old(
        view,
        '<del aria-hidden="true"><span class="woocommerce-Price-amount amount"><bdi>{}</bdi></span></del> ',
    )
    price = f"{old}<ins>{now}</ins>" if old else now
    return f"""<div class="summary entry-summary"><h1 class="product_title entry-title">{view.name}</h1>
<p class="price">{price}</p>
<p class="stock {kind}">{view.stock}</p>
<div class="product_meta"><span class="sku_wrapper">SKU: <span class="sku">{view.product.sku}</span></span></div></div>
<section class="related products">{related(view)}</section>"""


def magento(view: View) -> str:
    old = _old(
        view,
        '<span class="old-price"><span data-price-type="oldPrice" class="price-wrapper"><span class="price">{}</span></span></span>',
    )
    state = "unavailable" if _is_gone(view) else "available"
    return f"""<h1 class="page-title"><span class="base" data-ui-id="page-title-wrapper">{view.name}</span></h1>
<div class="product-info-price"><div class="price-box price-final_price" data-role="priceBox">
<span class="special-price"><span id="product-price-{view.product.number}" data-price-amount="{view.plain}" data-price-type="finalPrice"
 class="price-wrapper"><span class="price">{view.price}</span></span></span>{old}</div>
<div class="product-info-stock-sku"><div class="stock {state}" title="Availability"><span>{view.stock}</span></div>
<div class="product attribute sku"><strong class="type">SKU</strong><div class="value">{view.product.sku}</div></div></div></div>{related(view)}"""


def presta(view: View) -> str:
    icon = "&#xE14B;" if _is_gone(view) else "&#xE5CA;"
    return f"""<section id="main"><h1 class="h1">{view.name}</h1><div class="product-prices">
<div class="product-discount">{_old(view, '<span class="regular-price">{}</span>')}</div>
<div class="current-price"><span class="current-price-value">{view.price}</span><div class="tax-shipping-delivery-label">TTC</div></div></div>
<span id="product-availability"><i class="material-icons">{icon}</i> {view.stock}</span>
<div class="product-reference"><label>Ref.</label> <span>{view.product.sku}</span></div></section>{related(view)}"""


def shopware(view: View) -> str:
    old = _old(view, '<span class="list-price-price">{}</span>')
    return f"""<div class="row product-detail-content"><div class="col product-heading-name-container"><h1 class="product-detail-name">{view.name}</h1></div>
<div class="product-detail-price-container"><p class="product-detail-price{" with-list-price" if old else ""}">{view.price}*</p>{old}
<p class="product-detail-tax">* inkl. 19 % MwSt. zzgl. 4,90 Versand</p></div>
<div class="product-detail-delivery-information"><p class="delivery-information">{view.stock}</p></div>
<div class="product-detail-ordernumber-container"><span class="product-detail-ordernumber">{view.product.sku}</span></div></div>{related(view)}"""


def stencil(view: View) -> str:
    old = _old(
        view,
        '<div class="price-section rrp-price--withTax"><span data-product-rrp-price-with-tax class="price price--rrp">{}</span></div>',
    )
    box = f'<div class="alertBox alertBox--error"><p class="alertBox-message"><span>{view.stock}</span></p></div>'
    fine = f'<dd class="productView-info-value" data-stock>{view.stock}</dd>'
    return f"""<section class="productView-details product-data"><h1 class="productView-title">{view.name}</h1>
<div class="productView-price">{old}<div class="price-section price-section--withTax"><span class="price price--withTax">{view.price}</span></div></div>
<dl class="productView-info"><dt class="productView-info-name sku-label">SKU:</dt><dd class="productView-info-value" data-product-sku>{view.product.sku}</dd>
<dt class="productView-info-name">Availability:</dt>{fine if not _is_gone(view) else ""}</dl>{box if _is_gone(view) else ""}</section>{related(view)}"""


def opencart(view: View) -> str:
    old = _old(view, '<li><span style="text-decoration: line-through;">{}</span></li>')
    return f"""<div class="col-sm"><h1>{view.name}</h1><ul class="list-unstyled"><li>Brand: <a href="/brand">{escape(view.product.brand)}</a></li>
<li>Product Code: {view.product.sku}</li><li>Availability: {view.stock}</li></ul>
<ul class="list-unstyled">{old}<li><h2><span class="price-new">{view.price}</span></h2></li>
<li>Ex Tax: {view.text(view.product.price / 2)}</li></ul></div>{related(view)}"""


def table(view: View) -> str:
    """Nothing has a class."""
    old = _old(view, "<strike>{}</strike> ")
    return f"""<center><table border=1 cellpadding=4><tr><td colspan=2><font size=5><b>{view.name}</b></font>
<tr><td>Art.<td>{view.product.sku}<tr><td>Price<td>{old}<font color=red>{view.price}</font>
<tr><td>Stock<td><i>{view.stock}</i></table></center><hr>{related(view)}"""


def split(view: View) -> str:
    """Cents in an element of their own, without a separator."""
    number = view.money.number(view.product.price)
    whole, point, cents = number.rpartition(view.money.point)
    sign = view.money.pattern.replace("{}", "").strip()
    price = f'<span class="amount-whole">{whole}</span><span class="amount-sign">{sign}</span><sup class="amount-cents">{cents}</sup>'
    return f"""<article class="pdp"><header><h1 class="pdp-title">{view.name}</h1></header>
<div class="pdp-price">{price if point else number + sign}</div>{_old(view, '<div class="pdp-strike">{}</div>')}
<div class="pdp-status">{view.stock}</div><div class="pdp-ref">{view.product.sku}</div></article>{related(view)}"""


def definitions(view: View) -> str:
    return f"""<main class="artikel"><h1>{view.name}</h1><dl class="eigenschaften"><dt>Artikelnummer</dt><dd class="nr">{view.product.sku}</dd>
<dt>{escape(view.words.was)}</dt><dd class="alt">{_old(view, "<del>{}</del>") or "–"}</dd>
<dt>Preis</dt><dd class="neu"><strong>{view.price}</strong> <small>inkl. MwSt.</small></dd><dt>Status</dt><dd class="lager">{view.stock}</dd></dl></main>{related(view)}"""


def attributes(view: View) -> str:
    """What a script reads: `data-` attributes on the form."""
    state = view.product.availability
    return f"""<div id="pdp" class="js-product" data-product-id="{view.product.number}" data-sku="{view.product.sku}" data-price="{view.plain}"
 data-currency="{view.product.currency}" data-availability="{state.replace("_", "-")}"><h1 class="js-name">{view.name}</h1>
<span class="js-price" aria-hidden="true">…</span>{_old(view, '<span class="js-old" data-old>{}</span>')}</div>{related(view)}"""


def utility(view: View) -> str:
    """Classes that say how it looks, and not what it is."""
    return f"""<div class="mx-auto max-w-7xl lg:grid lg:grid-cols-2"><div class="px-4"><h1 class="text-2xl font-bold tracking-tight">{view.name}</h1>
<div class="mt-3 flex items-baseline gap-2"><span class="text-3xl font-semibold">{view.price}</span>{_old(view, '<span class="text-sm line-through">{}</span>')}</div>
<p class="mt-1 text-xs">4 × {view.text(view.product.price / 4)}</p>
<div class="mt-4 flex items-center"><svg width="8" height="8"></svg><p class="ml-2 text-sm">{view.stock}</p></div></div></div>{related(view)}"""


def hashed(view: View) -> str:
    """Class names that a build made."""
    return f"""<div class="ProductPage_root__a81Xc"><div class="ProductHeader_title__Zk29d"><h1>{view.name}</h1></div>
<div class="ProductPrice_wrap__0pQs1">{_old(view, '<div class="ProductPrice_before__77aQ">{}</div>')}<div class="ProductPrice_now__x1Y2z"><span>{view.price}</span></div></div>
<div class="Stock_label__mm3Ab">{view.stock}</div><div class="Ref_code__12abC">{view.product.sku}</div></div>{related(view)}"""


def sentence(view: View) -> str:
    """In the running text."""
    old = _old(view, '<s class="before">{}</s> ')
    return f"""<div class="text"><h1>{view.name}</h1><p class="lead"><em class="ref">{view.product.sku}</em> – {escape(view.words.buy)}:
<b class="now">{view.price}</b> {old}</p><p class="note"><q>{view.stock}</q></p></div>{related(view)}"""


def button(view: View) -> str:
    """The price is on the button, or there is a note in its place that has both."""
    old = _old(view, '<small class="old">{}</small>')
    return f"""<section class="buybox"><h1 id="name">{view.name}</h1>{old}<button class="buy" {"disabled" if _is_gone(view) else ""}><span>{escape(view.words.buy)}</span>
<span class="for">{view.price}</span></button><div role="status" aria-live="polite">{view.stock}</div><code>{view.product.sku}</code></section>{related(view)}"""


LAYOUTS: dict[str, Shape] = {
    shape.__name__: shape
    for shape in (
        dawn,
        woo,
        magento,
        presta,
        shopware,
        stencil,
        opencart,
        table,
        split,
        definitions,
        attributes,
        utility,
        hashed,
        sentence,
        button,
    )
}
