"""The annotated schemas of the quickstarts: names, types, ranges, and keys are those of Confluent's connector.

Listed values such as people and products are our own. IP addresses, phone numbers, and domains are reserved for documentation;
the social security numbers are never issued.
"""

from __future__ import annotations

import uuid
from typing import Any

from connectors.datagen.annotations import PROPERTY

Json = dict[str, Any]
_YEAR_2021_MS = 1_609_459_200_000
_FIRST_NAMES = (
    "Ada", "Bruno", "Clara", "Dmitri", "Elena", "Farid", "Grace", "Hugo", "Ines", "Jonas", "Keiko", "Liam", "Mara", "Nadia",
    "Oscar", "Priya", "Quinn", "Rosa", "Samir", "Tess", "Umar", "Vera", "Wade", "Yara", "Zoe",
)  # fmt: skip
_LAST_NAMES = (
    "Abbott", "Brandt", "Castillo", "Dawson", "Eriksen", "Fontaine", "Gupta", "Hayashi", "Ivanov", "Jensen", "Kowalski", "Larsen",
    "Moreau", "Novak", "Okafor", "Petrov", "Quigley", "Rossi", "Schmidt", "Tanaka", "Underwood", "Vargas", "Weber",
)  # fmt: skip
_CITIES = (
    ("Portland", "OR"), ("Denver", "CO"), ("Madison", "WI"), ("Tucson", "AZ"), ("Albany", "NY"), ("Savannah", "GA"),
    ("Spokane", "WA"),
)  # fmt: skip
_STATES = (("Oregon", 97201), ("Colorado", 80202), ("Wisconsin", 53703), ("Arizona", 85701), ("New York", 12207))
_IPS = [f"198.51.100.{i}" for i in range(1, 101)]
_MAC_ADDRESSES = [f"02-00-5E-10-{i // 16:02X}-{i * 37 % 256:02X}" for i in range(50)]
_INSURED = range(10, 910, 6)
_SHOE_IDS = [str(uuid.uuid5(uuid.NAMESPACE_OID, f"shoe {i}")) for i in range(120)]
_SHOE_CUSTOMER_IDS = [str(uuid.uuid5(uuid.NAMESPACE_OID, f"shoe customer {i}")) for i in range(100)]


def _first(i: int) -> str:
    return _FIRST_NAMES[i % len(_FIRST_NAMES)]


def _last(i: int) -> str:
    return _LAST_NAMES[i * 7 % len(_LAST_NAMES)]


def _email(i: int) -> str:
    return f"{_first(i)}.{_last(i)}@example.com".lower()


_PEOPLE = [f"{_first(i)} {_last(i)}" for i in range(100)]


def _card_number(i: int) -> int:
    """Returns a number with a valid check digit (Luhn's)."""
    payload = 400_000_000_000_000 + i * 7_919_317
    total = sum(sum(divmod(int(digit) * (2 - at % 2), 10)) for at, digit in enumerate(reversed(str(payload))))
    return payload * 10 + -total % 10


def _field(name: str, type: str | Json, logical: str = "", **annotations: Any) -> Json:
    bounds = annotations.get("range")
    if bounds is not None:
        annotations["range"] = {"min": bounds[0], "max": bounds[1]}
    schema: Json = dict(type) if isinstance(type, dict) else {"type": type}
    if logical:
        schema["logicalType"] = logical
    if annotations:
        schema[PROPERTY] = annotations
    return {"name": name, "type": schema}


def _plain(**types: str) -> list[Json]:
    return [_field(name, type) for name, type in types.items()]


def _steps(start: int, step: int = 1) -> dict[str, int]:
    return {"start": start, "step": step}


def _record(name: str, fields: list[Json], options: list[Json] | None = None) -> Json:
    schema: Json = {"type": "record", "name": name, "fields": fields}
    if options is not None:
        schema[PROPERTY] = {"options": options}
    return schema


def _address(name: str) -> Json:
    fields = [_field("ip", "string", options=_IPS), _field("port", "int", range=(10_000, 99_999))]
    return {"name": name, "type": _record(f"siem_logs.{name}", fields)}


def _order_line(i: int) -> Json:
    quantity, cents = 1 + i % 5, 124 + i * 311 % 2374
    return {
        "product_id": 4 + i,
        "category": ("pizza", "calzone", "salad", "wings", "dessert")[i % 5],
        "quantity": quantity,
        "unit_price": cents / 100,
        "net_price": quantity * cents / 100,
    }


_USER_FIELDS = [
    _field("registertime", "long", range=(1_487_715_775_521, 1_519_273_364_600)),
    _field("userid", "string", regex="User_[1-9]"),
    _field("regionid", "string", regex="Region_[1-9]"),
    _field("gender", "string", options=["MALE", "FEMALE", "OTHER"]),
]
_VEHICLE = _field("vehicle_id", "int", range=(1000, 9999))
_EMPLOYEE = _field("employee_id", "int", range=(1000, 1100))
_PIZZA_STORE = _field("store_id", "int", range=(1, 10))
_ORDER_DATE = _field("date", "int", "date", range=(18_000, 19_000))


def _ecommerce() -> dict[str, tuple[str, Json]]:
    return {
        "users_": ("userid", _record("ksql.users", [
            *_USER_FIELDS,
            _field("interests", {"type": "array", "items": "string"}, options=[
                ["Games", "Music"], ["Games", "Cooking"], ["Music", "Hiking"], ["Cooking", "Travel"],
            ]),
            _field("contactinfo", {"type": "map", "values": "string"}, options=[
                {"phone": f"503555010{i}", "city": city, "state": state, "zipcode": str(97_201 + i)}
                for i, (city, state) in enumerate(_CITIES)
            ]),
        ])),
        "pageviews": ("viewtime", _record("ksql.pageviews", [
            _field("viewtime", "long", iteration=_steps(1, 10)),
            _field("userid", "string", regex="User_[1-9]"),
            _field("pageid", "string", regex="Page_[1-9][0-9]"),
        ])),
        "ratings": ("rating_id", _record("ksql.ratings", [
            _field("rating_id", "long", iteration=_steps(1)),
            _field("user_id", "int", range=(-1, 20)),
            _field("stars", "int", range=(1, 5)),
            _field("route_id", "int", range=(1, 9999)),
            _field("rating_time", "long", iteration=_steps(1, 12)),
            _field("channel", "string", options=["web", "iOS", "ios", "iOS-test", "android"]),
            _field("message", "string", options=[
                "The crew was friendly and we landed early.", "Two hours late, and nobody told us why.",
                "My bag arrived a day after me.", "Great seat, good coffee.", "I have had better flights, and worse ones.",
            ]),
        ])),
        "stock_trades": ("symbol", _record("ksql.StockTrade", [
            _field("side", "string", options=["BUY", "SELL"]),
            _field("quantity", "int", range=(1, 5000)),
            _field("symbol", "string", options=["ZBZX", "ZJZZT", "ZTEST", "ZVV", "ZVZZT", "ZWZZT", "ZXZZT"]),
            _field("price", "int", range=(5, 1000)),
            _field("account", "string", options=["ABC123", "LMN456", "XYZ789"]),
            _field("userid", "string", regex="User_[1-9]"),
        ])),
        "inventory": ("id", _record("ksql.inventory", [
            _field(name, "long", iteration=_steps(0)) for name in ("id", "quantity", "productid")
        ])),
        "product": ("id", _record("ksql.product", [
            _field("id", "long", iteration=_steps(0)),
            _field("name", "string", iteration=_steps(0)),
            _field("description", "string", iteration=_steps(0)),
            _field("price", "double", iteration=_steps(0)),
        ])),
        "purchases": ("id", _record("datagen.example.purchase", [
            _field("id", "long", iteration=_steps(0)),
            _field("item_type", "string", options=["lamp", "kettle", "jacket", "backpack", "puzzle", "blanket", "mug"]),
            _field("quantity", "long", range=(1, 10)),
            _field("price_per_unit", {"type": "bytes", "precision": 4, "scale": 2}, "decimal", range=(10.0, 50.0)),
        ])),
        "transactions": ("transaction_id", _record("datagen.example.transactions", [
            _field("transaction_id", "long", iteration=_steps(1)),
            _field("card_id", "long", range=(1, 24)),
            _field("user_id", "string", regex="User_[1-9]{0,1}"),
            _field("purchase_id", "long", iteration=_steps(0)),
            _field("store_id", "int", range=(1, 7)),
        ])),
        "stores": ("store_id", _record(
            "datagen.example.stores", _plain(store_id="int", city="string", state="string"),
            [{"store_id": i, "city": city, "state": state} for i, (city, state) in enumerate(_CITIES, 1)],
        )),
        "credit_cards": ("card_id", _record(
            "datagen.example.users", _plain(card_id="int", card_number="long", cvv="int", expiration_date="string"),
            [
                {
                    "card_id": i, "card_number": _card_number(i), "cvv": 115 + i * 53 % 813,
                    "expiration_date": f"{i % 12 + 1:02}/29",
                }
                for i in range(1, 25)
            ],
        )),
        "campaign_finance": ("candidate_id", _record("datagen.campaign_finance", [
            _field("time", "long", range=(1_587_715_775_521, 1_619_273_364_600)),
            _field("candidate_id", "string", regex="[A-Z][1-9]{8,8}"),
            _field("party_affiliation", "string", options=["REP", "DEM", "IND"]),
            _field("contribution", "int", range=(20, 3500)),
        ])),
    }  # fmt: skip


def _clickstream() -> dict[str, tuple[str, Json]]:
    statuses = {200: "OK", 302: "Found", 404: "Not found", 405: "Method not allowed", 406: "Not acceptable"}
    statuses[407] = "Proxy authentication required"
    return {
        "clickstream_codes": ("code", _record(
            "clickstream.codes", _plain(code="int", definition="string"),
            [{"code": code, "definition": definition} for code, definition in statuses.items()],
        )),
        "clickstream_users": ("user_id", _record("clickstream.users", [
            _field("user_id", "int", iteration=_steps(1)),
            _field("username", "string", options=[f"{_first(i)}_{10 + i * 17 % 90}".lower() for i in range(18)]),
            _field("registered_at", "long", range=(1_407_645_330_000, 1_502_339_792_000)),
            _field("first_name", "string", options=list(_FIRST_NAMES)),
            _field("last_name", "string", options=list(_LAST_NAMES)),
            _field("city", "string", options=[city for city, _ in _CITIES]),
            _field("level", "string", options=["Gold", "Silver", "Platinum"]),
        ])),
    }  # fmt: skip


def _fleet_and_pizza() -> dict[str, tuple[str, Json]]:
    location = _record(
        "fleet_mgmt.location", _plain(latitude="double", longitude="double"),
        [{"latitude": 37.4 + i * 0.09, "longitude": -122.4 + i * 0.13} for i in range(30)],
    )  # fmt: skip
    line_fields = _plain(product_id="int", category="string", quantity="int", unit_price="double", net_price="double")
    lines = {"type": "array", "items": _record("pizza_orders.order_line", line_fields, [_order_line(i) for i in range(90)])}
    return {
        "fleet_mgmt_description": ("vehicle_id", _record("fleet_mgmt.fleet_mgmt_description", [
            _VEHICLE,
            _field("driver_name", "string", options=_PEOPLE),
            _field("license_plate", "string", regex=r"[A-Z]{2}\d{6}[A-Z]"),
        ])),
        "fleet_mgmt_location": ("vehicle_id", _record("fleet_mgmt.fleet_mgmt_location", [
            _VEHICLE,
            {"name": "location", "type": location},
            _field("ts", "long", "timestamp-millis", iteration=_steps(_YEAR_2021_MS, 100_000)),
        ])),
        "fleet_mgmt_sensors": ("vehicle_id", _record("fleet_mgmt.fleet_mgmt_sensors", [
            _VEHICLE,
            _field("engine_temperature", "int", range=(150, 250)),
            _field("average_rpm", "int", range=(1800, 5000)),
        ])),
        "pizza_orders": ("store_id", _record("pizza_orders.pizza_orders", [
            _PIZZA_STORE,
            _field("store_order_id", "int", iteration=_steps(1000)),
            _field("coupon_code", "int", range=(1000, 2000)),
            _ORDER_DATE,
            _field("status", "string", options=["accepted"]),
            _field("order_lines", lines, length={"min": 1, "max": 5}),
        ])),
        "pizza_orders_completed": ("store_id", _record("pizza_orders.pizza_orders_completed", [
            _PIZZA_STORE,
            _field("store_order_id", "int", iteration=_steps(1000, 2)),
            _ORDER_DATE,
            _field("status", "string", options=["completed"]),
            _field("rack_time_secs", "int", range=(130, 230)),
            _field("order_delivery_time_secs", "int", range=(1100, 2000)),
        ])),
        "pizza_orders_cancelled": ("store_id", _record("pizza_orders.pizza_orders_cancelled", [
            _PIZZA_STORE,
            _field("store_order_id", "int", iteration=_steps(1001, 2)),
            _ORDER_DATE,
            _field("status", "string", options=["cancelled"]),
        ])),
    }  # fmt: skip


def _insurance() -> dict[str, tuple[str, Json]]:
    customer = _plain(
        customer_id="int", first_name="string", last_name="string", email="string", gender="string", income="int", fico="int",
        years_active="int",
    )  # fmt: skip
    offers = ("home_starter", "auto_starter", "loyalty_discount", "careful_driver", "none")
    return {
        "insurance_offers": ("offer_id", _record(
            "insurance.insurance_offers", _plain(offer_id="int", offer_name="string", offer_url="string"),
            [
                {"offer_id": i, "offer_name": name, "offer_url": f"https://insurance.example.com/offers/{name}"}
                for i, name in enumerate(offers, 1)
            ],
        )),
        "insurance_customers": ("customer_id", _record("insurance.insurance_customers", customer, [
            {
                "customer_id": customer_id, "first_name": _first(i), "last_name": _last(i), "email": _email(i),
                "gender": ("Female", "Male")[i % 2], "income": 50_000 + i * 79_193 % 445_000, "fico": 404 + i * 37 % 490,
                "years_active": 1 + i * 7 % 45,
            }
            for i, customer_id in enumerate(_INSURED)
        ])),
        "insurance_customer_activity": ("activity_id", _record("insurance.insurance_customer_activity", [
            _field("activity_id", "int", iteration=_steps(1)),
            _field("customer_id", "int", options=list(_INSURED)),
            _field("activity_type", "string", options=["web_open", "mobile_open", "new_account"]),
            _field("propensity_to_churn", "double", range=(0.01, 1)),
            _field("ip_address", "string", options=_IPS[:50]),
        ])),
    }  # fmt: skip


def _gaming_and_payroll() -> dict[str, tuple[str, Json]]:
    employee = _plain(
        employee_id="int", first_name="string", last_name="string", age="int", ssn="string", hourly_rate="int", gender="string",
        email="string",
    )  # fmt: skip
    rooms = [f"{kind} -- {level}" for kind in ("Arcade", "Survival", "Classic") for level in ("Rookie", "Skilled", "Expert")]
    return {
        "gaming_games": ("id", _record("gaming.gaming_games", [
            _field("id", "int", range=(1000, 5000)),
            _field("room_name", "string", options=rooms),
            _field("created_date", "long", "timestamp-millis", iteration=_steps(_YEAR_2021_MS, 100_000)),
        ])),
        "gaming_players": ("player_id", _record(
            "gaming.gaming_players", _plain(player_id="int", player_name="string", ip="string"),
            [{"player_id": 1001 + i, "player_name": _PEOPLE[i], "ip": _IPS[i]} for i in range(100)],
        )),
        "gaming_player_activity": ("player_id", _record("gaming.gaming_player_activity", [
            _field("player_id", "int", range=(1001, 1101)),
            _field("game_room_id", "int", range=(1000, 5000)),
            _field("points", "int", range=(10, 500)),
            _field("coordinates", "string", regex=r"\[[0-9][0-9],[0-9][0-9]\]"),
        ])),
        "payroll_employee": ("employee_id", _record("payroll.payroll_employee", employee, [
            {
                "employee_id": 1000 + i, "first_name": _first(i), "last_name": _last(i), "age": 30 + i * 7 % 20,
                "ssn": f"9{i:02}-{10 + i * 13 % 90}-{1000 + i * 71}", "hourly_rate": 8 + i * 5 % 17,
                "gender": ("female", "male")[i % 2], "email": _email(i),
            }
            for i in range(100)
        ])),
        "payroll_employee_location": ("employee_id", _record("payroll.payroll_employee_location", [
            _EMPLOYEE,
            _field("lab", "string", regex=r"lab-\d{1}"),
            _field("department_id", "int", range=(1, 10)),
            _field("arrival_date", "int", "date", range=(18_000, 19_000)),
        ])),
        "payroll_bonus": ("employee_id", _record("payroll.payroll_bonus", [
            _EMPLOYEE,
            _field("bonus", "int", range=(10, 50)),
            _field("ts", "long", "timestamp-millis", range=(_YEAR_2021_MS, 1_640_995_199_000)),
        ])),
    }  # fmt: skip


def _logs() -> dict[str, tuple[str, Json]]:
    return {
        "syslog_logs": ("host", _record("syslogs.syslog_logs", [
            _field("name", "string", regex="[a-zA-Z]{5,8}"),
            _field("type", "string", options=["RFC5424", "RFC3164", "CEF", "UNKNOWN"]),
            _field("message", "string", regex="[a-z ]{10,15}"),
            _field("host", "string", options=[f"203.0.113.{i}" for i in range(1, 11)]),
            _field("version", "string", options=["3.25.1"]),
            _field("tag", "string", options=[".source.s_src"]),
            _field("level", "int", range=(0, 191)),
            _field("facility", "string", options=["syslog", "authpriv", "cron"]),
            _field("severity", "int", range=(0, 8)),
            _field("appName", "string", regex="[A-Z]{5,8}"),
            _field("remoteAddress", "string", options=[f"192.0.2.{i}" for i in range(1, 11)]),
            _field("rawMessage", "string", regex="[a-z ]{10,15}"),
            _field("processId", "string", regex="[1-9]{1}[0-9]{6}"),
            _field("messageId", "string", regex="[1-9]{1}[0-9]{2}"),
            _field("deviceVendor", "string", regex="[a-z]{5}"),
            _field("deviceProduct", "string", regex="[a-z]{5}"),
            _field("deviceVersion", "string", options=["1.0", "2.0", "3.0", "4.0", "5.0"]),
            _field("ts", "long", iteration=_steps(_YEAR_2021_MS, 100)),
        ])),
        "device_information": ("device_ip", _record("device_information.device_information", [
            _field("device_ip", "string", options=_IPS),
            _field("mac_address", "string", options=_MAC_ADDRESSES),
            _field("owner", "string", options=_PEOPLE),
        ])),
        "siem_logs": ("hostname", _record("siem_logs.siem_logs", [
            _field("hostname", "string", options=_IPS),
            _field("action", "string", options=["allow", "deny"]),
            _field("l4", "string", options=["tcp"]),
            _field("access_group", "string", options=["group-1", "group-2", "group-3", "group-4", "admin"]),
            _address("source"),
            _address("destination"),
        ])),
    }  # fmt: skip


def _shoes() -> dict[str, tuple[str, Json]]:
    brands = ("Alder & Sons", "Birchway", "Cedarline", "Dunefoot", "Elmstride", "Fernwalk")
    models = ("Comet", "Drift", "Ember", "Glide", "Harbor")
    customer = _plain(
        id="string", first_name="string", last_name="string", email="string", phone="string", street_address="string",
        state="string", zip_code="string", country="string", country_code="string",
    )  # fmt: skip
    return {
        "shoes": ("id", _record(
            "shoes.shoe_product", _plain(id="string", brand="string", name="string", sale_price="int", rating="double"),
            [
                {
                    "id": shoe_id, "brand": brands[i % 6], "name": f"{models[i % 5]} {100 + i}",
                    "sale_price": 1595 + i * 293 % 349 * 100, "rating": i * 7 % 51 / 10,
                }
                for i, shoe_id in enumerate(_SHOE_IDS)
            ],
        )),
        "shoe_customers": ("id", _record("shoes.shoe_customers", customer, [
            {
                "id": customer_id, "first_name": _first(i), "last_name": _last(i), "email": _email(i),
                "phone": f"503-555-01{i:02}", "street_address": f"{1 + i * 29 % 990} {_last(i + 5)} Street",
                "state": _STATES[i % 5][0], "zip_code": str(_STATES[i % 5][1]), "country": "United States", "country_code": "US",
            }
            for i, customer_id in enumerate(_SHOE_CUSTOMER_IDS)
        ])),
        "shoe_orders": ("order_id", _record("shoes.shoe_orders", [
            _field("order_id", "int", iteration=_steps(1000)),
            _field("product_id", "string", options=_SHOE_IDS),
            _field("customer_id", "string", options=_SHOE_CUSTOMER_IDS),
            _field("ts", "long", "timestamp-millis", iteration=_steps(_YEAR_2021_MS, 100_000)),
        ])),
        "shoe_clickstream": ("product_id", _record("shoes.shoe_clickstream", [
            _field("product_id", "string", options=_SHOE_IDS),
            _field("user_id", "string", options=_SHOE_CUSTOMER_IDS),
            _field("view_time", "int", range=(10, 120)),
            _field("page_url", "string", regex="https://www[.]acme[.]com/product/[a-z]{5}"),
            _field("ip", "string", options=_IPS),
            _field("ts", "long", "timestamp-millis", iteration=_steps(1_609_457_200_000, 10_000)),
        ])),
    }  # fmt: skip


SCHEMAS: dict[str, tuple[str, Json]] = {
    **_ecommerce(), **_clickstream(), **_fleet_and_pizza(), **_insurance(), **_gaming_and_payroll(), **_logs(), **_shoes(),
}  # fmt: skip
"""The key field and the schema of each quickstart."""
