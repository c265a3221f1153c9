"""Query parameters that say nothing about the page: who sent the visitor, or which visit this is.

They are sent, but two URLs that differ in nothing else are the same page. Only names that surely mean this are listed:
a name that some site might use for content (`ref`, `sid`, `session_id`, `cfid`, `pk_…`, `hsa_…`) is not, because pages
would be lost without a word. Case does not matter. More names can be given by the setting `tracking_params`, where a
final `*` stands for any ending.
"""

from __future__ import annotations

import re

TRACKING_PREFIXES = (
    "utm_",  # Google Analytics campaigns, understood by nearly every other tool
    "mtm_",  # Matomo campaigns
    "matomo_",
    "piwik_",
)

TRACKING_PARAMS = frozenset(
    {
        # Google
        *("gclid", "gclsrc", "dclid", "gbraid", "wbraid", "gad_source", "gad_campaignid", "srsltid"),
        *("_ga", "_gl", "_gac"),
        # Meta
        *("fbclid", "fb_action_ids", "fb_action_types", "fb_ref", "igshid", "igsh"),
        # other networks: Microsoft, Yandex, X, TikTok, LinkedIn, Pinterest, Reddit, Snapchat
        *(
            "msclkid",
            "yclid",
            "ysclid",
            "_openstat",
            "twclid",
            "ttclid",
            "li_fat_id",
            "epik",
            "rdt_cid",
            "sccid",
        ),
        # mail and marketing: Mailchimp, Marketo, HubSpot, Vero, Omeda, Klaviyo, MailerLite
        *("mc_cid", "mc_eid", "mkt_tok", "_hsenc", "_hsmi", "__hssc", "__hstc", "__hsfp", "hsctatracking"),
        *("vero_id", "vero_conv", "oly_enc_id", "oly_anon_id", "_kx", "ml_subscriber", "ml_subscriber_hash"),
        # affiliate and deep-link services: Impact, Wicked Reports, Branch
        *("irclickid", "wickedid", "_branch_match_id", "_branch_referrer"),
    }
)

# Names that only ever carry the id of a session, because a language or a shop system writes them.
SESSION_PARAMS = frozenset({"phpsessid", "jsessionid", "oscsid", "zenid"})
SESSION_PREFIXES = ("aspsessionid",)

# Java and PHP also write the session's id into the path: /basket;jsessionid=1A2B?item=3
SESSION_IN_PATH = re.compile(r";(?:jsessionid|phpsessid)=[^/;]*", re.IGNORECASE)
