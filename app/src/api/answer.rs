//! What every server function answers: one type for all of them, so that reading a page is compiled once.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use leptos::prelude::ServerFnError;
use leptos::server_fn::codec::Post;
use leptos::server_fn::{Bytes, ContentType, Decodes, Encodes, Format, FormatType};
use serde::de::DeserializeOwned;

/// A view in postcard, or the sentence that says why there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// What was asked for. Reading a compact form takes the browser a third of the code that JSON takes.
    View(Vec<u8>),
    /// An expected no. It is an answer like any other, not a failed request.
    Refused(Refusal),
}

/// Why there is no view, and the sentence for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The kind.
    pub why: Why,
    /// The sentence.
    pub text: String,
}

/// Kinds of no.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// Nobody is logged in.
    LoggedOut,
    /// It is not there.
    NotFound,
    /// Somebody else changed it first.
    Conflict,
    /// A rule, a right or the input forbids it.
    Refused,
    /// A fault of the server, the connection or the page.
    Failed,
}

impl Refusal {
    /// A no with its sentence.
    pub fn new(why: Why, text: impl Into<String>) -> Refusal {
        Refusal { why, text: text.into() }
    }
}

/// The codec of answers: a letter, and behind it the view or the sentence.
pub struct Plain;

/// What a server function's `output` is.
pub type Told = Post<Plain>;

/// How an answer stands in a page: readable bytes as they are, all others as `~` and two hex digits.
impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in bytes_of(self) {
            if plain(byte) {
                fmt::Write::write_char(f, char::from(byte))?;
            } else {
                write!(f, "~{byte:02x}")?;
            }
        }
        Ok(())
    }
}

/// Bytes that neither HTML nor JavaScript gives a meaning.
fn plain(byte: u8) -> bool {
    (b' '..b'~').contains(&byte) && !matches!(byte, b'"' | b'\'' | b'\\' | b'<' | b'>' | b'&')
}

fn bytes_of(answer: &Answer) -> Vec<u8> {
    let (letter, rest) = match answer {
        Answer::View(bytes) => (b'=', bytes.as_slice()),
        Answer::Refused(refusal) => {
            let letter = match refusal.why {
                Why::LoggedOut => b'L',
                Why::NotFound => b'N',
                Why::Conflict => b'C',
                Why::Refused => b'R',
                Why::Failed => b'F',
            };
            (letter, refusal.text.as_bytes())
        }
    };
    let mut bytes = Vec::with_capacity(rest.len() + 1);
    bytes.push(letter);
    bytes.extend_from_slice(rest);
    bytes
}

fn of_bytes(bytes: &[u8]) -> Answer {
    let Some((letter, rest)) = bytes.split_first() else { return Answer::Refused(strange()) };
    let why = match letter {
        b'=' => return Answer::View(rest.to_vec()),
        b'L' => Why::LoggedOut,
        b'N' => Why::NotFound,
        b'C' => Why::Conflict,
        b'R' => Why::Refused,
        b'F' => Why::Failed,
        _ => return Answer::Refused(strange()),
    };
    Answer::Refused(Refusal::new(why, String::from_utf8_lossy(rest)))
}

impl FromStr for Answer {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Answer, Infallible> {
        let digit = |byte: Option<u8>| byte.and_then(|b| char::from(b).to_digit(16)).unwrap_or(0);
        let mut bytes = Vec::with_capacity(text.len());
        let mut left = text.bytes();
        while let Some(byte) = left.next() {
            if byte == b'~' {
                let code = digit(left.next()) * 16 + digit(left.next());
                bytes.push(u8::try_from(code).unwrap_or(0));
            } else {
                bytes.push(byte);
            }
        }
        Ok(of_bytes(&bytes))
    }
}

impl ContentType for Plain {
    const CONTENT_TYPE: &'static str = "application/octet-stream";
}

impl FormatType for Plain {
    const FORMAT_TYPE: Format = Format::Binary;
}

impl Encodes<Answer> for Plain {
    type Error = Infallible;

    fn encode(answer: &Answer) -> Result<Bytes, Infallible> {
        Ok(Bytes::from(bytes_of(answer)))
    }
}

impl Decodes<Answer> for Plain {
    type Error = Infallible;

    fn decode(bytes: Bytes) -> Result<Answer, Infallible> {
        Ok(of_bytes(&bytes))
    }
}

/// The answer of a call, with a failed request as a sentence too.
pub fn settled(answer: Result<Answer, ServerFnError>) -> Answer {
    answer.unwrap_or_else(|error| Answer::Refused(says(error)))
}

/// The view in a call's answer.
pub fn opened<T: DeserializeOwned>(answer: Result<Answer, ServerFnError>) -> Result<T, Refusal> {
    settled(answer).open()
}

impl Answer {
    /// The view in it.
    pub fn open<T: DeserializeOwned>(&self) -> Result<T, Refusal> {
        match self {
            Answer::View(bytes) => postcard::from_bytes(bytes).map_err(|_| strange()),
            Answer::Refused(refusal) => Err(refusal.clone()),
        }
    }
}

fn strange() -> Refusal {
    Refusal::new(Why::Failed, "The server and this page do not understand each other. Reload the page.")
}

fn says(error: ServerFnError) -> Refusal {
    match error {
        ServerFnError::ServerError(text) => Refusal::new(Why::Failed, text),
        ServerFnError::Request(_) => {
            Refusal::new(Why::Failed, "The server did not answer. Check the connection and try again.")
        }
        ServerFnError::Registration(_)
        | ServerFnError::MiddlewareError(_)
        | ServerFnError::Deserialization(_)
        | ServerFnError::Serialization(_)
        | ServerFnError::Args(_)
        | ServerFnError::MissingArg(_)
        | ServerFnError::Response(_) => strange(),
        #[allow(deprecated)]
        ServerFnError::WrappedServerError(_) => Refusal::new(Why::Failed, "The server refused it."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_survives_the_way() {
        let answers = [
            Answer::View((0..=255).collect()),
            Answer::Refused(Refusal::new(Why::Conflict, "Ä changed.")),
            Answer::Refused(Refusal::new(Why::NotFound, "")),
        ];
        for answer in answers {
            let page = answer.to_string();
            assert!(page.is_ascii() && !page.contains(['<', '"', '\\', '&']), "{page}");
            assert_eq!(page.parse(), Ok(answer.clone()));
            assert_eq!(of_bytes(&bytes_of(&answer)), answer);
        }
        let nothing: Answer = "".parse().unwrap_or_else(|never| match never {});
        assert!(matches!(nothing, Answer::Refused(Refusal { why: Why::Failed, .. })));
    }
}
