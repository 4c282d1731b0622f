# ruff: noqa: RUF001 - texts in other scripts
"""Texts of eight kinds, made up anew from a seed, as people, models and tools write them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

Maker = Callable[[random.Random, int], str]
"Returns a text of about so many characters."

_NAMES: Final = ("Anna", "Bjørn", "Chidi", "Dana", "Emre", "Farah", "Goran", "Hiro")
_PLACES: Final = ("Lisbon", "Berlin", "the office", "Osaka", "the warehouse", "Graz")

_ENGLISH: Final = (
    "{name} asked whether the meeting in {place} could be moved to Thursday afternoon.",
    "I looked at the figures again, and the difference comes from the second quarter alone.",
    "Could you write a short answer that thanks them and asks for the missing invoice?",
    "The train leaves at {n}:40, so we should be at the station a quarter of an hour earlier.",
    "That's fine with me, but let's not promise anything before {name} has seen the contract.",
    "Most of the complaints mention the same thing: the confirmation arrives hours too late.",
    "Here is what I would do: first make a copy, then change one setting and see what happens.",
    "She said the garden needs about {n} litres of water a day as long as the heat lasts.",
    "In short, the old method works as long as nobody touches the configuration by hand.",
    "Please remember that {name} is allergic to nuts when you order the food for {place}.",
    "There are three possible reasons, and the simplest of them is also the most likely one.",
    "I don't think we need a new tool for this; a shared list would do just as well.",
    "The landlord wrote that the heating will be repaired on the {n}th, between nine and noon.",
    "What surprised me most was how quiet {place} is in the early morning.",
    "If it rains we'll go to the museum instead; tickets are {n} euros and children are free.",
    "He has been learning the cello for two years and plays in a small orchestra.",
    "Nobody had noticed that the backup had been failing silently since the end of March.",
    "You can leave the keys with the neighbours on the second floor, they know about it.",
    "The recipe says {n} minutes, but in our oven it takes considerably longer than that.",
    "To summarise: we agreed on the price, the delivery date is open, and {name} will call.",
)
_CHINESE: Final = (
    "{name}问能不能把周四下午的会议改到下周一上午。",
    "我又看了一遍数字，差额完全来自第二季度。",
    "请帮我写一封简短的回信，先表示感谢，再询问缺少的发票。",
    "火车{n}点四十分开，我们最好提前一刻钟到车站。",
    "我没有意见，不过在看过合同之前先不要答应任何事情。",
    "大多数投诉都提到同一个问题：确认邮件要过好几个小时才到。",
    "我建议先备份，然后只改一个设置，看看结果如何。",
    "天气热的时候，花园每天大约需要{n}升水。",
    "总之，只要没有人手动修改配置，旧的方法仍然可用。",
    "有三种可能的原因，其中最简单的也是最有可能的。",
    "我觉得不需要新的工具，一份共享的清单就够了。",
    "房东来信说，暖气会在{n}号上午九点到十二点之间修好。",
    "如果下雨，我们就去博物馆，门票{n}元，儿童免费。",
    "他学了两年大提琴，现在在一个小乐团里演奏。",
    "没有人注意到备份从三月底开始就一直悄悄地失败。",
    "钥匙可以交给二楼的邻居，他们知道这件事。",
    "食谱上写的是{n}分钟，可是用我们家的烤箱要久得多。",
    "价格已经谈好了，交货日期还没有定，明天再打电话确认。",
)
_JAPANESE: Final = (
    "木曜日の午後の会議を来週の月曜日に変更できるかどうか、{name}さんから問い合わせがありました。",
    "数字をもう一度確認しましたが、差額はすべて第二四半期によるものです。",
    "お礼を述べたうえで、足りない請求書について尋ねる短い返事を書いてください。",
    "電車は{n}時四十分に出るので、十五分前には駅に着いていたほうがいいですね。",
    "私はそれで構いませんが、契約書を見るまでは何も約束しないでおきましょう。",
    "苦情のほとんどは同じことを指摘しています。確認メールが届くのが遅すぎるのです。",
    "まずコピーを取って、設定を一つだけ変えて、どうなるか見てみるのがよいと思います。",
    "暑い日が続くあいだ、庭には一日に約{n}リットルの水が必要だそうです。",
    "要するに、誰も設定を手で触らないかぎり、古い方法でもうまくいきます。",
    "考えられる理由は三つありますが、一番簡単なものが一番ありそうです。",
    "新しいツールは必要ないと思います。共有のリストがあれば十分です。",
    "大家さんの手紙によると、暖房は{n}日の午前中に修理されるそうです。",
    "雨が降ったら美術館に行きましょう。入場料は{n}円で、子どもは無料です。",
    "彼は二年前からチェロを習っていて、小さなオーケストラで演奏しています。",
    "バックアップが三月の終わりからずっと失敗していたことに、誰も気づいていませんでした。",
    "鍵は二階の隣の人に預けておいてください。話はしてあります。",
)
_KOREAN: Final = (
    "{name} 씨가 목요일 오후 회의를 다음 주 월요일로 옮길 수 있는지 물어봤어요.",
    "숫자를 다시 확인했는데, 차이는 전부 이사분기에서 생긴 것입니다.",
    "감사 인사를 하고 빠진 청구서를 요청하는 짧은 답장을 써 주세요.",
    "기차는 {n}시 사십 분에 출발하니까 십오 분 전에는 역에 도착해야 합니다.",
    "저는 괜찮지만 계약서를 보기 전에는 아무것도 약속하지 맙시다.",
    "대부분의 불만은 같은 내용입니다. 확인 메일이 몇 시간이나 늦게 도착한다는 것입니다.",
    "먼저 사본을 만들고 설정을 하나만 바꾼 다음 어떻게 되는지 보는 것이 좋겠습니다.",
    "더위가 계속되는 동안 정원에는 하루에 물이 약 {n}리터 필요하다고 합니다.",
    "가능한 이유는 세 가지인데, 가장 간단한 것이 가장 그럴듯합니다.",
    "새로운 도구는 필요 없을 것 같아요. 함께 쓰는 목록이면 충분합니다.",
    "비가 오면 박물관에 가요. 입장료는 {n}유로이고 어린이는 무료입니다.",
    "백업이 삼월 말부터 계속 실패하고 있었다는 것을 아무도 몰랐습니다.",
    "열쇠는 이층 이웃에게 맡기면 됩니다. 이미 이야기해 두었습니다.",
)
_RUSSIAN: Final = (
    "{name} спрашивает, можно ли перенести встречу с четверга на понедельник.",
    "Я ещё раз посмотрел цифры: вся разница приходится на второй квартал.",
    "Напиши, пожалуйста, короткий ответ: поблагодари и спроси про недостающий счёт.",
    "Поезд уходит в {n}:40, так что на вокзале лучше быть минут за пятнадцать.",
    "Я не против, но давайте ничего не обещать, пока не увидим договор.",
    "Почти во всех жалобах говорится об одном: подтверждение приходит слишком поздно.",
    "Сначала сделай копию, потом поменяй одну настройку и посмотри, что получится.",
    "Пока стоит жара, саду нужно около {n} литров воды в день.",
    "Причин может быть три, и самая простая из них кажется самой вероятной.",
    "Мне кажется, новый инструмент не нужен, достаточно общего списка.",
    "Хозяйка написала, что отопление починят {n}-го числа до полудня.",
    "Никто не заметил, что резервное копирование не работает с конца марта.",
)
_EMOJI: Final = (
    "omg yesss 🎉🎉 see you at {n} 😍",
    "haha no way 😂😂😂 who told you that??",
    "ok 👍",
    "running late, {n} min 🏃‍♀️💨 sorryyy 🙏",
    "look at this 🐱❤️ {name} sent it",
    "good morning ☀️ coffee? ☕️",
    "🔥🔥🔥",
    "not sure tbh 🤔 maybe ask {name}",
    "happy birthday 🎂🥳🎈 all the best!!",
    "flight's booked ✈️🇵🇹 can't wait 😎",
    "ugh monday 😴 need {n} more hours",
    "done ✅ next one? 👀",
    "lol same 🤷‍♂️",
    "pizza or sushi? 🍕🍣 you choose 😋",
    "miss you all 🥺💕 {n} days to go",
)


def _sentences(lines: tuple[str, ...], joint: str) -> Maker:
    def make(rng: random.Random, size_chars: int) -> str:
        parts: list[str] = []
        while sum(map(len, parts)) < size_chars:
            line = rng.choice(lines)
            parts.append(
                line.format(
                    name=rng.choice(_NAMES), place=rng.choice(_PLACES), n=rng.randrange(2, 31)
                )
            )
        return joint.join(parts)

    return make


def code(rng: random.Random, size_chars: int) -> str:
    """Return a piece of this project's own code."""
    files = sorted(Path(__file__).parent.parent.glob("*/everturn_*/**/*.py"))
    text = rng.choice(files).read_text(encoding="utf-8")
    start = rng.randrange(max(1, len(text) - size_chars))
    return text[start : start + size_chars]


def records(rng: random.Random, size_chars: int) -> str:
    """Return JSON as tools give it, indented or not."""
    rows = [
        {
            "id": rng.randrange(10**7),
            "name": rng.choice(_NAMES),
            "email": f"{rng.choice(_NAMES).lower()}{rng.randrange(100)}@example.org",
            "createdAt": f"2026-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}T"
            f"{rng.randrange(24):02}:{rng.randrange(60):02}:{rng.randrange(60):02}Z",
            "active": rng.random() < 0.7,
            "balance": round(rng.uniform(-500, 5000), 2),
            "tags": rng.sample(["priority", "trial", "internal", "newsletter", "eu"], 2),
        }
        for _ in range(max(1, size_chars // 190))
    ]
    return json.dumps(rows, ensure_ascii=False, indent=2 if rng.random() < 0.5 else None)


def logs(rng: random.Random, size_chars: int) -> str:
    """Return log lines with times and identifiers."""
    return "\n".join(
        f"2026-11-{rng.randrange(1, 29):02}T{rng.randrange(24):02}:{rng.randrange(60):02}:"
        f"{rng.randrange(60):02}.{rng.randrange(1000):03}Z"
        f" {rng.choice(['INFO', 'INFO', 'WARNING', 'ERROR'])} worker-{rng.randrange(16)}"
        f" request={rng.getrandbits(64):016x}"
        f" {rng.choice(['accepted', 'slow query', 'connection reset by peer', 'cache miss'])}"
        f" path=/api/v1/orders/{rng.randrange(10**6)} took={rng.randrange(3000)}ms"
        for _ in range(max(1, size_chars // 125))
    )


TEXTS: Final[Mapping[str, Maker]] = MappingProxyType(
    {
        "english": _sentences(_ENGLISH, " "),
        "code": code,
        "json": records,
        "logs": logs,
        "chinese": _sentences(_CHINESE, ""),
        "japanese": _sentences(_JAPANESE, ""),
        "korean": _sentences(_KOREAN, " "),
        "russian": _sentences(_RUSSIAN, " "),
        "emoji": _sentences(_EMOJI, "\n"),
    }
)
