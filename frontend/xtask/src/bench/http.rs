//! As much HTTP as the bench needs: one request a connection, and a terminal's websocket.

use anyhow::{Context, Result, bail, ensure};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// What came back.
pub(super) struct Answer {
    pub(super) status: u16,
    headers: Vec<(String, String)>,
    pub(super) body: String,
}

impl Answer {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(have, _)| have == name).map(|(_, value)| value.as_str())
    }
}

pub(super) fn get(address: &str, path: &str) -> Result<Answer> {
    call(address, "GET", path, &[], "")
}

pub(super) fn call(
    address: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Result<Answer> {
    let mut stream = connect(address)?;
    let mut text = format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str(&format!("content-length: {}\r\n\r\n{body}", body.len()));
    stream.write_all(text.as_bytes())?;
    let mut reader = BufReader::new(stream);
    let (status, headers) = head(&mut reader)?;
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes)?;
    Ok(Answer { status, headers, body: String::from_utf8(bytes)? })
}

fn connect(address: &str) -> Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    Ok(stream)
}

fn head(reader: &mut BufReader<TcpStream>) -> Result<(u16, Vec<(String, String)>)> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|code| code.parse().ok()).context("no status")?;
    let mut headers = Vec::new();
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        match line.trim_end().split_once(": ") {
            Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.to_owned())),
            None => return Ok((status, headers)),
        }
    }
}

/// Somebody who watches a terminal.
pub(super) struct Viewer {
    reader: BufReader<TcpStream>,
}

impl Viewer {
    /// Opens a session's terminal and acknowledges its first window, as a page does.
    pub(super) fn open(address: &str, cookie: &str, session: &str) -> Result<Viewer> {
        let mut stream = connect(address)?;
        write!(
            stream,
            "GET /ws/terminal/{session} HTTP/1.1\r\nHost: {address}\r\nOrigin: http://{address}\r\nCookie: {cookie}\r\n\
             Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )?;
        let mut reader = BufReader::new(stream);
        let (status, _) = head(&mut reader)?;
        ensure!(status == 101, "the terminal of {session} answers {status}");
        let mut viewer = Viewer { reader };
        viewer.window()?;
        Ok(viewer)
    }

    /// Takes the next window and acknowledges it; gives the record's offset after its last line.
    pub(super) fn window(&mut self) -> Result<u64> {
        loop {
            // Window frames begin with 0, then three numbers: first line, its offset, the offset of the end.
            let frame = self.frame()?;
            if let Some(numbers) = frame.strip_prefix(&[0]) {
                let mut rest = numbers;
                let end = [number(&mut rest)?, number(&mut rest)?, number(&mut rest)?][2];
                self.acknowledge(end)?;
                return Ok(end);
            }
        }
    }

    fn frame(&mut self) -> Result<Vec<u8>> {
        let mut head = [0; 2];
        self.reader.read_exact(&mut head)?;
        let length = match head[1] {
            126 => {
                let mut bytes = [0; 2];
                self.reader.read_exact(&mut bytes)?;
                u64::from(u16::from_be_bytes(bytes))
            }
            127 => {
                let mut bytes = [0; 8];
                self.reader.read_exact(&mut bytes)?;
                u64::from_be_bytes(bytes)
            }
            short => u64::from(short),
        };
        let mut bytes = Vec::new();
        self.reader.by_ref().take(length).read_to_end(&mut bytes)?;
        // 2 is binary; anything else (a ping, say) is no window.
        Ok(if head[0] & 0xf == 2 { bytes } else { Vec::new() })
    }

    fn acknowledge(&mut self, end: u64) -> Result<()> {
        let mut body = vec![0];
        let mut rest = end;
        while rest >= 0x80 {
            body.push((rest & 0x7f) as u8 | 0x80);
            rest >>= 7;
        }
        body.push(rest as u8);
        // A client masks; a mask of zeros changes nothing.
        let mut frame = vec![0x82, 0x80 | body.len() as u8, 0, 0, 0, 0];
        frame.extend(body);
        Ok(self.reader.get_mut().write_all(&frame)?)
    }
}

/// A number in postcard's form: seven bits a byte, the lowest first.
fn number(bytes: &mut &[u8]) -> Result<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let Some((byte, rest)) = bytes.split_first() else { bail!("a window frame is cut off") };
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    bail!("a window frame has a number that is too long")
}
