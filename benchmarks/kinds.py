# ruff: noqa: RUF001 - texts in other scripts
"""Texts of 44 kinds: those of `texts`, more languages and data, and what no estimate expects."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from texts import TEXTS, Maker

_LANGUAGES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "german": (
            "Könnten wir das Treffen am Donnerstag auf nächste Woche verschieben?",
            "Die Rechnung für den Auftrag {n} liegt noch immer nicht vor.",
            "Der Unterschied kommt allein aus dem zweiten Quartal.",
            "Datenschutzgrundverordnung und Geschwindigkeitsbegrenzung sind lange Wörter.",
        ),
        "french": (
            "Pourriez-vous déplacer la réunion de jeudi à la semaine prochaine ?",
            "J'ai revu les chiffres, et la différence vient du deuxième trimestre.",
            "Le train part à {n} heures, il faudrait être à la gare un quart d'heure avant.",
        ),
        "spanish": (
            "¿Podríamos mover la reunión del jueves a la semana que viene?",
            "He vuelto a mirar las cifras, y la diferencia viene del segundo trimestre.",
            "El tren sale a las {n}, así que deberíamos llegar un cuarto de hora antes.",
        ),
        "finnish": (
            "Voisimmeko siirtää torstain kokouksen ensi viikolle?",
            "Katsoin luvut vielä kerran, ja ero johtuu pelkästään toisesta neljänneksestä.",
            "Juna lähtee kello {n}, joten meidän pitäisi olla asemalla varttia aikaisemmin.",
        ),
        "polish": (
            "Czy moglibyśmy przenieść czwartkowe spotkanie na przyszły tydzień?",
            "Jeszcze raz przejrzałem liczby, a różnica wynika wyłącznie z drugiego kwartału.",
            "Pociąg odjeżdża o {n}, więc powinniśmy być na dworcu kwadrans wcześniej.",
        ),
        "turkish": (
            "Perşembe günkü toplantıyı gelecek haftaya erteleyebilir miyiz?",
            "Rakamlara tekrar baktım, fark yalnızca ikinci çeyrekten geliyor.",
            "Tren saat {n}'te kalkıyor, on beş dakika önce istasyonda olmalıyız.",
        ),
        "vietnamese": (
            "Chúng ta có thể dời cuộc họp thứ năm sang tuần sau được không?",
            "Tôi đã xem lại các con số, và sự khác biệt chỉ đến từ quý hai.",
            "Tàu khởi hành lúc {n} giờ, vì vậy chúng ta nên đến ga sớm mười lăm phút.",
        ),
        "swahili": (
            "Je, tunaweza kuahirisha mkutano wa Alhamisi hadi wiki ijayo?",
            "Nilitazama takwimu tena, na tofauti inatoka robo ya pili pekee.",
            "Treni inaondoka saa {n}, kwa hivyo tunapaswa kufika kituoni mapema.",
        ),
        "arabic": (
            "هل يمكننا تأجيل اجتماع يوم الخميس إلى الأسبوع القادم؟",
            "راجعت الأرقام مرة أخرى، والفرق يأتي من الربع الثاني فقط.",
            "يغادر القطار في الساعة {n}، لذا يجب أن نصل مبكرا.",
        ),
        "hebrew": (
            "האם נוכל לדחות את הפגישה של יום חמישי לשבוע הבא?",
            "עברתי שוב על המספרים, וההפרש נובע מהרבעון השני בלבד.",
            "הרכבת יוצאת בשעה {n}, אז כדאי להגיע מוקדם.",
        ),
        "hindi": (
            "क्या हम गुरुवार की बैठक को अगले सप्ताह तक टाल सकते हैं?",
            "मैंने आंकड़ों को फिर से देखा, और अंतर केवल दूसरी तिमाही से आता है।",
            "ट्रेन {n} बजे निकलती है, इसलिए हमें पहले पहुंचना चाहिए।",
        ),
        "thai": (
            "เราเลื่อนการประชุมวันพฤหัสบดีไปสัปดาห์หน้าได้ไหม",
            "ฉันดูตัวเลขอีกครั้ง และความแตกต่างมาจากไตรมาสที่สองเท่านั้น",
            "รถไฟออกเวลา {n} นาฬิกา ดังนั้นเราควรไปถึงสถานีก่อน",
        ),
        "amharic": (
            "የሐሙስ ስብሰባን ወደ ሚቀጥለው ሳምንት ማስተላለፍ እንችላለን?",
            "ቁጥሮቹን እንደገና ተመለከትኩ፣ ልዩነቱ ከሁለተኛው ሩብ ዓመት ብቻ ነው።",
            "ባቡሩ በ{n} ሰዓት ይነሳል፣ ስለዚህ ቀድመን መድረስ አለብን።",
        ),
        "greek": (
            "Μπορούμε να μεταφέρουμε τη συνάντηση της Πέμπτης στην επόμενη εβδομάδα;",
            "Κοίταξα ξανά τους αριθμούς και η διαφορά προέρχεται από το δεύτερο τρίμηνο.",
            "Το τρένο φεύγει στις {n}, οπότε πρέπει να φτάσουμε νωρίτερα.",
        ),
        "capitals": (
            "ATTENTION: THE MEETING HAS BEEN MOVED TO THURSDAY AFTERNOON.",
            "ALL PERSONNEL MUST REPORT TO THE OFFICE BEFORE {n} O'CLOCK.",
            "DO NOT OPEN THE DOOR WHILE THE MACHINE IS RUNNING.",
        ),
        "markdown": (
            "## Results of week {n}",
            "- **Done:** the migration of the `orders` table",
            "- [ ] ask Anna about the [contract](https://example.org/c/{n})",
            "| item | count | price |\n|---|---:|---:|\n| apples | {n} | 1.20 |",
        ),
        "sql": (
            "SELECT o.id, o.total, c.name FROM orders AS o JOIN customers AS c ON c.id = o.cid;",
            "SELECT id FROM orders WHERE created_at >= '2026-01-{n}' ORDER BY total DESC LIMIT 50;",
            "INSERT INTO audit_log (user_id, action, created_at) VALUES ({n}, 'login', NOW());",
            "CREATE INDEX IF NOT EXISTS idx_orders_customer ON orders (customer_id, created_at);",
        ),
        "javascript": (
            "const items = await fetch(`/api/v1/orders/${id}`).then((r) => r.json());",
            "export function sum(a, b) {\n  return a.reduce((x, y) => x + y, {n}) + b;\n}",
            "if (!user || !user.isActive) { throw new Error('not allowed'); }",
        ),
        "minified": (
            "!function(e){var t=n({n});return e&&e.__esModule?e:{default:e}}(window),a.b=c||{};",
            "o.d=(e,t)=>{for(var n in t)o.o(t,n)&&!o.o(e,n)&&Object.defineProperty(e,n,t[n])};",
        ),
        "html": (
            '<div class="card"><h2>Week {n}</h2><p>Nothing new.</p></div>',
            '<a href="https://example.org/item/{n}" class="btn btn-primary">Open</a>',
        ),
        "yaml": (
            "service:\n  name: gateway\n  replicas: {n}\n  env:\n    - name: LOG_LEVEL\n",
            "    ports:\n      - containerPort: 80{n}\n        protocol: TCP\n",
        ),
        "diff": (
            "@@ -{n},7 +{n},9 @@ def handle(self):\n         value = self.store.get(key)",
            "-        return value or None\n+        return value if value else default",
        ),
    }
)


def _lines(line: Callable[[random.Random], str], joint: str = "\n") -> Maker:
    """Return what makes a text of lines."""

    def make(rng: random.Random, size_chars: int) -> str:
        lines: list[str] = []
        size = 0
        while size < size_chars:
            lines.append(line(rng))
            size += len(lines[-1]) + len(joint)
        return joint.join(lines)

    return make


def _sentences(lines: tuple[str, ...]) -> Maker:
    return _lines(lambda rng: rng.choice(lines).replace("{n}", str(rng.randrange(2, 30))), " ")


def _uuid(rng: random.Random) -> str:
    digits = rng.randbytes(16).hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _combined(rng: random.Random) -> str:
    accents = "".join(rng.choices("\u0300\u0301\u0302\u0303\u0308\u0323", k=rng.randrange(1, 4)))
    return rng.choice("aeioun") + accents


def _listed(rng: random.Random) -> str:
    return (
        f"-rw-r--r--  1 {rng.choice(('root', 'anna'))} staff {rng.randrange(10**6):>8} Nov"
        f" {rng.randrange(1, 28):>2} {rng.randrange(24):02}:{rng.randrange(60):02}"
        f" report-{rng.randrange(99)}.{rng.choice(('txt', 'log', 'tar.gz'))}"
    )


_MADE: Final[Mapping[str, Maker]] = MappingProxyType(
    {
        "separators": _lines(lambda rng: rng.choice("-=*_#~") * rng.choice((40, 60, 72, 80))),
        "base64": _lines(lambda rng: base64.b64encode(rng.randbytes(57)).decode(), ""),
        "hex": _lines(lambda rng: rng.randbytes(32).hex(), ""),
        "uuids": _lines(_uuid),
        "csv": _lines(
            lambda rng: (
                f"{rng.randrange(10**6)},2026-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02},"
                f"{rng.uniform(0, 5000):.2f},EUR,{rng.choice(('paid', 'open', 'late'))}"
            )
        ),
        "numbers": _lines(lambda rng: f"{rng.uniform(-1000, 1000):.6f}", " "),
        "table": _lines(
            lambda rng: (
                f"| {rng.choice(('apple', 'pear', 'plum')):<8} | {rng.randrange(10**5):>10} |"
                f" {rng.uniform(0, 99):>6.2f} |"
            )
        ),
        "boxes": _lines(
            lambda rng: (
                f"│ {rng.choice(('apple', 'pear')):<8} │ {rng.randrange(10**5):>10} │\n├{'─' * 10}┼"
                f"{'─' * 12}┤"
            )
        ),
        "combining": _lines(_combined, ""),
        "one letter": lambda rng, size_chars: rng.choice("aqzx") * size_chars,
        "paths": _lines(
            lambda rng: (
                f"/usr/lib/python3.{rng.randrange(8, 14)}/site-packages/"
                f"{rng.choice(('numpy', 'aiohttp'))}/{rng.choice(('core', 'tests'))}/"
                f"{rng.choice(('utils', 'parser'))}.py:{rng.randrange(900)}"
            )
        ),
        "listing": _lines(_listed),
        "indented": _lines(
            lambda rng: " " * rng.randrange(8, 40) + rng.choice(("name", "total", "x"))
        ),
    }
)

KINDS: Final[Mapping[str, Maker]] = MappingProxyType(
    {**TEXTS, **{name: _sentences(lines) for name, lines in _LANGUAGES.items()}, **_MADE}
)
"Makers of texts, by the kind of text."
