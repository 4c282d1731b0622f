"""Voice notes by the installed command, whatever becomes of the gateway."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
from support.model_api import open_model_api
from support.process import TELEGRAM, gateway_process
from support.talking import (
    ANN,
    OPEN,
    Brain,
    check_secrets,
    log_of,
    read,
    until,
    until_listening,
    until_said,
    write,
    write_talking,
)
from support.telegram_api import TOKEN, open_telegram_api
from support.voice_api import KEY, SPOKEN, Said, open_voice_api


async def test_a_voice_note_outlives_a_kill_and_is_answered_once(tmp_path: Path) -> None:
    """SIGKILL in the middle of a transcription repeats it and nothing else; a fault is told."""
    brain = Brain()
    async with (
        open_model_api(default=brain) as model,
        open_telegram_api() as telegram,
        open_voice_api() as voice,
    ):
        write_talking(
            tmp_path,
            model.url,
            channels={"telegram": {"bot_token": TOKEN, "api_base": telegram.url}},
            agents={"helper": OPEN},
        )
        file = tmp_path / "everturn.yaml"
        heard_by = {"kind": "openai", "base_url": voice.url, "api_key": KEY}
        voices = {"transcription": heard_by, "speech": heard_by}
        config = {**json.loads(file.read_text()), "voice": voices}
        file.write_text(json.dumps(config))
        agent = tmp_path / "agents" / "helper" / "agent.yaml"
        agent.write_text(f"{agent.read_text()}  voice: {{reply: when_spoken_to}}\n")
        telegram.files["note"] = b"OggS the sound of a question"
        note = {"file_id": "note", "file_unique_id": "note", "duration": 3, "file_size": 28}
        voice.holds = anyio.Event()
        async with gateway_process(tmp_path, imported=TELEGRAM) as gateway:
            await until_listening(telegram)
            write(telegram, voice={**note, "mime_type": "audio/ogg"})
            await voice.until_asked(1)
            await gateway.kill()
        voice.holds.set()
        voice.holds = None
        async with gateway_process(tmp_path, imported=TELEGRAM):
            await until(lambda: telegram.sent("sendVoice"))
            await until_said(tmp_path, ANN)
            telegram.files["song"] = b"ID3 the sound of a song"
            song = {"file_id": "song", "file_unique_id": "song", "duration": 3, "file_size": 23}
            voice.script.append(Said(body=b"<html>no</html>"))
            write(telegram, audio={**song, "file_name": "song.mp3"})
            await until(lambda: len(read(telegram, ANN)) == 4)
            await until_said(tmp_path, ANN)

    answer, _, told, last = read(telegram, ANN)
    assert '[voice note, 0:03: "what is it?"]' in answer
    assert (
        told
        == "Your file song.mp3 (0:03) could not be transcribed: what came back is no transcript."
    )
    assert "[audio file song.mp3, 0:03: not transcribed: what came back is no" in last
    assert [request["file"] for request in voice.heard] == [
        b"OggS the sound of a question",
        b"OggS the sound of a question",
        b"ID3 the sound of a song",
    ]
    assert len(brain.asked) == 2
    (sound,) = telegram.sent("sendVoice")
    assert [*sound.files.values()] == [("reply.ogg", SPOKEN)]
    (spoken,) = [each["input"] for each in voice.spoken]
    assert spoken.startswith("re: ")
    assert spoken.endswith('[voice note, 0:03: "what is it?"].')
    events = [event["type"] for event in log_of(tmp_path, ANN)]
    assert events.count("transcribed") == 2
    check_secrets(tmp_path, KEY)
