"""Names of time zones in dates, with their minutes east of UTC, of Java 17's locale en_US.

A name that several zones share means the zone that is first in Java's list. A name that starts with an earlier one
(``Petropavlovsk`` with ``PET``) is never reached and is omitted. Rules of former years are omitted too.
"""

from __future__ import annotations

_NAMES = {
    -660: "Niue Time;NUT;Niue Summer Time;NUST;Samoa Standard Time;SST;Samoa Daylight Time;SDT",
    -600: (
        "Hawaii-Aleutian Standard Time;HST;Hawaii-Aleutian Daylight Time;HDT;HAST;Tahiti Time;TAHT;Tahiti Summer Time;TAHST;"
        "Cook Islands Standard Time;CKT;Cook Islands Half Summer Time;CKHST;Hawaii Standard Time"
    ),
    -570: "Marquesas Time;MART;Marquesas Summer Time;MARST",
    -540: "Alaska Standard Time;AKST;HADT;Gambier Time;GAMT;Gambier Summer Time;GAMST",
    -480: (
        "Pacific Standard Time;PST;Alaska Daylight Time;AKDT;Pitcairn Time;Pitcairn Daylight Time;Northwest Mexico Standard Time"
    ),
    -420: (
        "Pacific Daylight Time;PDT;Mountain Standard Time;MST;Mexican Pacific Standard Time;Mexican Pacific Daylight Time;"
        "Northwest Mexico Daylight Time"
    ),
    -360: "Mountain Daylight Time;MDT;Central Standard Time;CST;Galapagos Time;GALT;Galapagos Summer Time;GALST",
    -300: (
        "Central Daylight Time;CDT;Eastern Standard Time;EST;Peru Standard Time;PET;Peru Summer Time;PEST;"
        "Colombia Standard Time;COT;Colombia Summer Time;COST;Cuba Standard Time;EASST;Acre Standard Time;ACT;"
        "Acre Summer Time;Ecuador Time;ECT;Ecuador Summer Time;ECST"
    ),
    -240: (
        "Eastern Daylight Time;EDT;Atlantic Standard Time;AST;Amazon Standard Time;Amazon Summer Time;Guyana Time;GYT;"
        "Guyana Summer Time;GYST;Cuba Daylight Time;Bolivia Time;BOT;Bolivia Summer Time;BOST;Venezuela Time;VET;"
        "Venezuela Summer Time;VEST;Paraguay Standard Time;PYT;Chile Standard Time;CLT;Coyhaique Standard Time"
    ),
    -210: "Newfoundland Standard Time;NST",
    -180: (
        "Atlantic Daylight Time;ADT;Brasilia Standard Time;BRT;Brasilia Summer Time;BRST;Argentina Standard Time;ART;"
        "Argentina Summer Time;ARST;French Guiana Time;GFT;French Guiana Summer Time;GFST;Paraguay Summer Time;PYST;"
        "St. Pierre & Miquelon Standard Time;PMST;Chile Summer Time;CLST;Falkland Islands Standard Time;FKT;"
        "Falkland Islands Summer Time;FKST;Uruguay Standard Time;UYT;Uruguay Summer Time;UYST;Suriname Time;SRT;"
        "Suriname Summer Time;SRST;Rothera Time;ROTT;Rothera Summer Time;ROTST;Argentine Time;Argentine Summer Time;"
        "Chile Time;Punta Arenas Standard Time;Coyhaique Daylight Time"
    ),
    -150: "Newfoundland Daylight Time;NDT",
    -120: (
        "WGT;Fernando de Noronha Standard Time;FNT;Fernando de Noronha Summer Time;FNST;St. Pierre & Miquelon Daylight Time;"
        "PMDT;EGT;South Georgia Time;South Georgia Daylight Time"
    ),
    -60: "WGST;Azores Standard Time;AZOT;Cape Verde Standard Time;CVT;Cape Verde Summer Time;CVST;EGST",
    0: (
        "Coordinated Universal Time;UTC;Greenwich Mean Time;GMT;Western European Standard Time;WET;Ghana Summer Time;GHST;"
        "Azores Summer Time;AZOST"
    ),
    60: (
        "Central European Standard Time;CET;Western European Summer Time;WEST;WAT;WAST;Irish Standard Time;"
        "British Summer Time;BST;Central European Time;Middle Europe Time;MET"
    ),
    120: (
        "Central European Summer Time;CEST;Israel Standard Time;IST;Eastern European Standard Time;EET;Central Africa Time;"
        "CAT;Central African Summer Time;CAST;South Africa Standard Time;SAST;South Africa Summer Time;"
        "Middle Europe Summer Time;MEST"
    ),
    180: (
        "Israel Daylight Time;IDT;Eastern European Summer Time;EEST;East Africa Time;EAT;Eastern African Summer Time;EAST;"
        "Arabian Standard Time;Arabian Daylight Time;Moscow Standard Time;MSK;Moscow Summer Time;MSD;Syowa Time;SYOT;"
        "Syowa Summer Time;SYOST;Volgograd Standard Time;Volgograd Summer Time;Turkey Time;TRT;Turkey Summer Time;TRST;"
        "Moscow Daylight Time"
    ),
    210: "Iran Standard Time;IRST;Iran Daylight Time;IRDT",
    240: (
        "Armenia Standard Time;AMT;Armenia Summer Time;AMST;Azerbaijan Standard Time;AZT;Azerbaijan Summer Time;AZST;"
        "Gulf Standard Time;GST;Gulf Daylight Time;GDT;Seychelles Time;SCT;Seychelles Summer Time;SCST;"
        "Georgia Standard Time;GET;Georgia Summer Time;GEST;Samara Standard Time;SAMT;Samara Summer Time;SAMST;Réunion Time;"
        "RET;Reunion Summer Time;REST;Mauritius Standard Time;MUT;Mauritius Summer Time;MUST;Saratov Standard Time;"
        "Ulyanovsk Standard Time"
    ),
    270: "Afghanistan Time;AFT;Afghanistan Summer Time;AFST",
    300: (
        "Pakistan Standard Time;PKT;Pakistan Summer Time;PKST;ORAT;Oral Summer Time;ORAST;AQTT;Aqtau Summer Time;AQTST;ALMT;"
        "Alma-Ata Summer Time;ALMST;Aqtobe Summer Time;Atyrau Daylight Time;Turkmenistan Standard Time;TMT;"
        "Turkmenistan Summer Time;TMST;Tajikistan Time;TJT;Tajikistan Summer Time;TJST;QOST;Kostanay Summer Time;QOSST;"
        "Uzbekistan Standard Time;UZT;Uzbekistan Summer Time;UZST;QYZT;Qyzylorda Summer Time;QYZST;Maldives Time;MVT;"
        "Maldives Summer Time;MVST;French Southern & Antarctic Time;TFT;French Southern & Antarctic Lands Summer Time;TFST;"
        "Mawson Time;MAWT;Mawson Summer Time;MAWST;Vostok Time;VOST;VOSST;Yekaterinburg Standard Time;YEKT;"
        "Yekaterinburg Summer Time;YEKST"
    ),
    330: "India Standard Time;India Daylight Time",
    345: "Nepal Time;NPT;Nepal Summer Time;NPST",
    360: (
        "Bangladesh Standard Time;BDT;Bangladesh Summer Time;BDST;Omsk Standard Time;OMST;Omsk Summer Time;OMSST;"
        "Kyrgyzstan Time;KGT;Kirgizstan Summer Time;KGST;Bhutan Time;BTT;Bhutan Summer Time;BTST;Indian Ocean Time;IOT;"
        "Indian Ocean Territory Summer Time;IOST;Xinjiang Standard Time;XJT;Xinjiang Daylight Time;XJDT"
    ),
    390: "Myanmar Time;MMT;Myanmar Summer Time;MMST;Cocos Islands Time;CCT;Cocos Islands Summer Time;CCST",
    420: (
        "Hovd Standard Time;HOVT;Hovd Summer Time;HOVST;Indochina Time;ICT;Indochina Summer Time;ICST;WIB;WIST;Davis Time;"
        "DAVT;Davis Summer Time;DAVST;Krasnoyarsk Standard Time;KRAT;Krasnoyarsk Summer Time;KRAST;"
        "Novosibirsk Standard Time;NOVT;Novosibirsk Summer Time;NOVST;Christmas Island Time;CXT;"
        "Christmas Island Summer Time;CXST;Tomsk Standard Time;Tomsk Daylight Time;Barnaul Standard Time;"
        "Barnaul Daylight Time"
    ),
    480: (
        "China Standard Time;China Daylight Time;Brunei Darussalam Time;BNT;Brunei Summer Time;BNST;"
        "Philippine Standard Time;Philippine Summer Time;Taipei Standard Time;Taipei Daylight Time;Irkutsk Standard Time;"
        "IRKT;Irkutsk Summer Time;IRKST;Malaysia Time;MYT;Malaysia Summer Time;MYST;Central Indonesia Time;"
        "Central Indonesia Summer Time;CIST;Hong Kong Standard Time;HKT;Hong Kong Summer Time;HKST;Singapore Standard Time;"
        "SGT;Singapore Summer Time;SGST;Ulaanbaatar Standard Time;CHOT;Ulaanbaatar Summer Time;CHOST;"
        "Australian Western Standard Time;AWST;Australian Western Daylight Time;AWDT;Casey Time;ULAT;ULAST"
    ),
    525: "Australian Central Western Standard Time;ACWST;Australian Central Western Daylight Time;ACWDT",
    540: (
        "Japan Standard Time;JST;Japan Daylight Time;JDT;TLT;Timor-Leste Summer Time;TLST;Yakutsk Standard Time;YAKT;"
        "Yakutsk Summer Time;YAKST;Korean Standard Time;KST;Korean Daylight Time;KDT;WIT;EIST;Palau Time;PWT;"
        "Palau Summer Time;PWST"
    ),
    570: "Australian Central Standard Time;ACST;Australian Central Daylight Time;ACDT",
    600: (
        "Australian Eastern Standard Time;AEST;Chuuk Time;CHUT;Chuuk Summer Time;CHUST;Chamorro Standard Time;ChST;"
        "Chamorro Daylight Time;ChDT;Vladivostok Standard Time;VLAT;Vladivostok Summer Time;VLAST;Papua New Guinea Time;PGT;"
        "Papua New Guinea Summer Time;PGST;Dumont-d\u2019Urville Time;DDUT;Dumont-d'Urville Summer Time;DDUST"
    ),
    630: "Lord Howe Standard Time;LHST",
    660: (
        "Australian Eastern Daylight Time;AEDT;Solomon Islands Time;SBT;Solomon Is. Summer Time;SBST;Magadan Standard Time;"
        "MAGT;Magadan Summer Time;MAGST;Sakhalin Standard Time;SAKT;Sakhalin Summer Time;SAKST;Vanuatu Standard Time;VUT;"
        "Vanuatu Summer Time;VUST;Kosrae Time;KOST;Kosrae Summer Time;KOSST;New Caledonia Standard Time;NCT;"
        "New Caledonia Summer Time;NCST;Ponape Time;PONT;Pohnpei Summer Time;PONST;Norfolk Island Standard Time;NFT;"
        "Lord Howe Daylight Time;LHDT;Bougainville Standard Time;Bougainville Daylight Time;Srednekolymsk Time;SRET;"
        "Srednekolymsk Daylight Time;SREDT"
    ),
    720: (
        "New Zealand Standard Time;NZST;Anadyr Standard Time;ANAT;Anadyr Summer Time;ANAST;Fiji Standard Time;FJT;"
        "Fiji Summer Time;FJST;Wake Island Time;WAKT;Wake Summer Time;WAKST;Nauru Time;NRT;Nauru Summer Time;NRST;"
        "Marshall Islands Time;MHT;Marshall Islands Summer Time;MHST;Gilbert Islands Time;GILT;Gilbert Is. Summer Time;"
        "GILST;Wallis & Futuna Time;WFT;Wallis & Futuna Summer Time;WFST;Norfolk Island Daylight Time;NFST;Tuvalu Time;TVT;"
        "Tuvalu Summer Time;TVST"
    ),
    765: "Chatham Standard Time;CHAST",
    780: (
        "Apia Standard Time;WSST;Apia Daylight Time;WSDT;New Zealand Daylight Time;NZDT;Tokelau Time;TKT;"
        "Tokelau Summer Time;TKST;Phoenix Islands Time;PHOT;Phoenix Is. Summer Time;PHOST;Tonga Standard Time;TOT;"
        "Tonga Summer Time;TOST;Kanton Standard Time;Kanton Daylight Time"
    ),
    825: "Chatham Daylight Time;CHADT",
    840: "Line Islands Time;LINT;Line Is. Summer Time;LINST",
}

ZONE_NAMES: dict[str, int] = {name.lower(): minutes for minutes, names in _NAMES.items() for name in names.split(";")}
"""Minutes east of UTC by lower-case name."""
NAME_SIZES = sorted({len(name) for name in ZONE_NAMES}, reverse=True)
"""The lengths of the names, longest first."""
