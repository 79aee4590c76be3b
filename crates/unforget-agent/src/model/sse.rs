//! Cuts a stream of server-sent events into events.
//!
//! It owns lines, fields and the blank line that ends an event, and knows nothing of what an event says. Bytes come in
//! as the network cuts them: in the middle of a character, between `\r` and `\n`, a byte at a time. However they are
//! cut, the events are the same; an answer that depended on it would differ from one day to the next with nobody able
//! to say why. Text is decoded when its line is complete, so no character is ever torn.
//!
//! What grows is bounded: a line or an event that never ends is an error, not a process without memory.
//!
//! One thing differs from a browser: an event that the stream's end completes counts. Whoever reads it decides
//! whether it is whole.

/// Largest event, in bytes.
pub(super) const MAX_EVENT: usize = 16 * 1024 * 1024;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// One event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Message {
    /// What kind it is, empty if the stream does not say.
    pub(super) name: String,
    /// What it says.
    pub(super) data: String,
}

/// An event is larger than [`MAX_EVENT`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooLarge;

/// Takes bytes and gives events.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    line: Vec<u8>,
    name: String,
    /// The lines of data so far, joined; none if there was no such line.
    data: Option<Vec<u8>>,
    /// The last line ended in `\r`, so a `\n` that follows belongs to it.
    after_return: bool,
    past_first_line: bool,
}

impl Decoder {
    /// The events that these bytes complete.
    pub(super) fn push(&mut self, mut bytes: &[u8]) -> Result<Vec<Message>, TooLarge> {
        let mut messages = Vec::new();
        while let Some(&first) = bytes.first() {
            if std::mem::take(&mut self.after_return) && first == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let piece = &bytes[..end.unwrap_or(bytes.len())];
            let size = self.line.len() + self.data.as_ref().map_or(0, Vec::len) + piece.len();
            if size > MAX_EVENT {
                return Err(TooLarge);
            }
            self.line.extend_from_slice(piece);
            let Some(end) = end else { break };
            self.after_return = bytes[end] == b'\r';
            messages.extend(self.end_line());
            bytes = &bytes[end + 1..];
        }
        Ok(messages)
    }

    /// The event that the end of the stream completes, if one was begun.
    pub(super) fn finish(mut self) -> Option<Message> {
        // The first of these ends the last line, the second the event, if the last line did not end it.
        self.end_line().or_else(|| self.dispatch())
    }

    fn end_line(&mut self) -> Option<Message> {
        let line = std::mem::take(&mut self.line);
        let mut text = line.as_slice();
        if !std::mem::replace(&mut self.past_first_line, true) {
            text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
        }
        if text.is_empty() {
            return self.dispatch();
        }
        let colon = text.iter().position(|byte| *byte == b':').unwrap_or(text.len());
        let (field, value) = text.split_at(colon);
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"event" => self.name = String::from_utf8_lossy(value).into_owned(),
            b"data" => match &mut self.data {
                Some(data) => {
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
                None => self.data = Some(value.to_vec()),
            },
            // Comments have an empty field. Ids and reconnection times are for streams that can be taken up again.
            _ => {}
        }
        None
    }

    fn dispatch(&mut self) -> Option<Message> {
        let name = std::mem::take(&mut self.name);
        let data = self.data.take()?;
        Some(Message { name, data: String::from_utf8_lossy(&data).into_owned() })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(chunks: &[&[u8]]) -> Vec<Message> {
        let mut decoder = Decoder::default();
        let mut messages: Vec<Message> = chunks.iter().flat_map(|chunk| decoder.push(chunk).unwrap()).collect();
        messages.extend(decoder.finish());
        messages
    }

    fn message(name: &str, data: &str) -> Message {
        Message { name: name.to_owned(), data: data.to_owned() }
    }

    #[test]
    fn every_form_of_an_event_is_read() {
        let a = || message("", "a");
        for (stream, want) in [
            ("event: x\ndata: {\"日\":1}\n\n", vec![message("x", "{\"日\":1}")]),
            ("event:x\r\ndata:a\r\n\r\ndata:b\r\n\r\n", vec![message("x", "a"), message("", "b")]),
            ("event: x\rdata: a\r\rdata: b\r\r", vec![message("x", "a"), message("", "b")]),
            ("data: a\ndata\ndata:  b\n\n", vec![message("", "a\n\n b")]),
            (": ping\n\n:\ndata: a\n: more\n\n\n\n", vec![a()]),
            ("\u{feff}data: a\n\n", vec![a()]),
            ("data: a\n\n\u{feff}data: b\n\n", vec![a()]),
            ("event: x\n\ndata: a\n\n", vec![a()]),
            ("id: 7\nretry: 5\nunknown: z\ndata: a\n\n", vec![a()]),
            ("data: a", vec![a()]),
            ("data: a\n", vec![a()]),
            ("data: a\ndata: b", vec![message("", "a\nb")]),
            ("data: a\n\nevent: x", vec![a()]),
            ("data\n\n", vec![message("", "")]),
            ("", vec![]),
            ("\n\r\n\r\r\n", vec![]),
        ] {
            assert_eq!(all(&[stream.as_bytes()]), want, "{stream:?}");
        }
    }

    #[test]
    fn an_event_that_never_ends_is_an_error() {
        let megabyte = vec![b'x'; 1024 * 1024];
        let mut one_line = Decoder::default();
        let filled = (0..16).map(|_| one_line.push(&megabyte)).all(|pushed| pushed == Ok(vec![]));
        assert!(filled);
        assert_eq!(one_line.push(b"x"), Err(TooLarge));

        let mut many_lines = Decoder::default();
        let line = [b"data: ", megabyte.as_slice(), b"\n"].concat();
        assert_eq!((0..17).find(|_| many_lines.push(&line).is_err()), Some(15));
    }

    #[test]
    fn many_events_are_not_one_large_one() {
        let mut decoder = Decoder::default();
        let event = [b"data: ", vec![b'x'; 1024 * 1024].as_slice(), b"\n\n"].concat();
        let count: usize = (0..40).map(|_| decoder.push(&event).unwrap().len()).sum();
        assert_eq!(count, 40);
    }

    fn streams() -> impl Strategy<Value = Vec<u8>> {
        let pieces = prop::sample::select(vec![
            "data: ",
            "data:",
            "event: ping",
            "data",
            "日本語",
            "😀",
            "\u{feff}",
            "{\"a\":1}",
            ":",
            " ",
            "x",
            "\n",
            "\r",
            "\r\n",
            "\n\n",
            "\r\n\r\n",
        ]);
        let bytes = prop_oneof![9 => pieces.prop_map(|piece| piece.as_bytes().to_vec()), 1 => any::<Vec<u8>>()];
        prop::collection::vec(bytes, 0..40).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_events(stream in streams(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12)) {
            let whole = all(&[&stream]);
            let single: Vec<&[u8]> = stream.chunks(1).collect();
            prop_assert_eq!(&all(&single), &whole);
            let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
            places.extend([0, stream.len()]);
            places.sort_unstable();
            let chunks: Vec<&[u8]> = places.windows(2).map(|ends| &stream[ends[0]..ends[1]]).collect();
            prop_assert_eq!(all(&chunks), whole);
        }
    }
}
