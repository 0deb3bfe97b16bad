//! The record: every line that people see, in segments of 4 MiB with an index beside them.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use opkit_domain::session::{IndexLine, SEGMENT_BYTES, files};

use super::pane::Pane;

/// Index lines of one kind are at least this far apart: 20 a second.
const INDEX_MS: i64 = 50;
/// Kept in memory for repainting the pane.
const TAIL_BYTES: usize = 64 << 10;

/// What a line is, for the index.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// Nothing special.
    Plain,
    /// A step begins.
    Step,
    /// Something failed.
    Error,
    /// A commit was made.
    Commit,
}

/// Where a segment begins.
#[derive(Clone, Copy)]
struct Start {
    offset: u64,
    lines: u64,
}

/// Bytes that belong to one segment and are not on the disk yet.
struct Chunk {
    begins: Option<Start>,
    bytes: Vec<u8>,
}

/// The record of a session, written by whole lines only.
pub(super) struct Record {
    dir: PathBuf,
    cap: u64,
    segment: Option<File>,
    index: File,
    /// Kept segments, the oldest first; the last one is being written (or waits in `pending`).
    segments: VecDeque<Start>,
    /// End of the record, pending bytes included.
    offset: u64,
    lines: u64,
    pending: VecDeque<Chunk>,
    pending_index: Vec<u8>,
    /// Milliseconds since 1970, set once per batch.
    pub(super) now_ms: i64,
    last_data_ms: i64,
    last_error_ms: i64,
    tail: Vec<u8>,
}

impl Record {
    /// Opens the record below `session`, after what an earlier runner may have left.
    pub(super) fn open(session: &Path, cap: u64, now_ms: i64) -> io::Result<Record> {
        let dir = session.join(files::RECORD);
        fs::create_dir_all(&dir)?;
        let mut index = append(&dir.join(files::INDEX))?;
        if fs::read(dir.join(files::INDEX))?.last().is_some_and(|last| *last != b'\n') {
            // A torn last line must not swallow the next one.
            index.write_all(b"\n")?;
        }
        let mut record = Record {
            dir,
            cap: cap.max(2 * SEGMENT_BYTES),
            segment: None,
            index,
            segments: VecDeque::new(),
            offset: 0,
            lines: 0,
            pending: VecDeque::new(),
            pending_index: Vec::new(),
            now_ms,
            last_data_ms: 0,
            last_error_ms: 0,
            tail: Vec::new(),
        };
        record.adopt()?;
        Ok(record)
    }

    /// Continues segments that are there already: a runner was launched a second time after a crash.
    fn adopt(&mut self) -> io::Result<()> {
        let mut starts = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let name = entry?.file_name();
            if let Some(start) = name.to_str().and_then(|name| name.strip_suffix(".seg")?.parse::<u64>().ok())
            {
                starts.push(start);
            }
        }
        starts.sort_unstable();
        let index = fs::read_to_string(self.dir.join(files::INDEX)).unwrap_or_default();
        let first = starts.first().copied().unwrap_or(0);
        self.lines = index
            .lines()
            .filter_map(IndexLine::parse)
            .rfind(|line| line.offset == first)
            .map_or(0, |l| l.lines);
        for offset in starts {
            self.segments.push_back(Start { offset, lines: self.lines });
            let mut bytes = Vec::new();
            File::open(self.path(offset))?.read_to_end(&mut bytes)?;
            self.lines += bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
            self.offset = offset + bytes.len() as u64;
            if bytes.last().is_some_and(|last| *last != b'\n') {
                // A torn last line: close it, so that the next one is whole.
                append(&self.path(offset))?.write_all(b"\n")?;
                self.offset += 1;
                self.lines += 1;
            }
        }
        if let Some(last) = self.segments.back() {
            self.segment = Some(append(&self.path(last.offset))?);
        }
        Ok(())
    }

    /// Bytes in total, dropped segments included.
    pub(super) fn len(&self) -> u64 {
        self.offset
    }

    /// Adds one line; `text` holds no line break and nothing but text and SGR.
    pub(super) fn line(&mut self, mark: Mark, text: &str) {
        let size = text.len() as u64 + 1;
        let full = self.segments.back().is_none_or(|start| self.offset - start.offset + size > SEGMENT_BYTES);
        if full {
            let start = Start { offset: self.offset, lines: self.lines };
            self.segments.push_back(start);
            self.pending.push_back(Chunk { begins: Some(start), bytes: Vec::with_capacity(64 << 10) });
        }
        self.note(mark, full);
        if self.pending.is_empty() {
            self.pending.push_back(Chunk { begins: None, bytes: Vec::new() });
        }
        if let Some(chunk) = self.pending.back_mut() {
            chunk.bytes.extend_from_slice(text.as_bytes());
            chunk.bytes.push(b'\n');
        }
        self.offset += size;
        self.lines += 1;
    }

    fn note(&mut self, mark: Mark, segment_begins: bool) {
        if segment_begins || (self.now_ms - self.last_data_ms).abs() >= INDEX_MS {
            self.last_data_ms = self.now_ms;
            self.index_line('d', self.offset, self.lines);
        }
        match mark {
            Mark::Plain => {}
            Mark::Step => self.index_line('m', self.offset, self.lines),
            Mark::Commit => self.index_line('c', self.offset, self.lines),
            Mark::Error if (self.now_ms - self.last_error_ms).abs() >= INDEX_MS => {
                self.last_error_ms = self.now_ms;
                self.index_line('e', self.offset, self.lines);
            }
            Mark::Error => {}
        }
    }

    fn index_line(&mut self, kind: char, offset: u64, lines: u64) {
        let line = IndexLine { offset, ms: self.now_ms, kind, lines };
        self.pending_index.extend_from_slice(format!("{line}\n").as_bytes());
    }

    /// Writes what is pending to the disk, then shows it. After an error everything unwritten is still pending.
    pub(super) fn flush(&mut self, pane: &mut Pane) -> io::Result<()> {
        while let Some(chunk) = self.pending.front_mut() {
            if let Some(start) = chunk.begins {
                self.segment = Some(append(&self.dir.join(segment_name(start.offset)))?);
                chunk.begins = None;
            }
            if let Some(segment) = &mut self.segment {
                let mut done = 0;
                let result = write_counted(segment, &chunk.bytes, &mut done);
                pane.show(&chunk.bytes[..done]);
                keep_tail(&mut self.tail, &chunk.bytes[..done]);
                chunk.bytes.drain(..done);
                result?;
            }
            if self.pending.len() == 1 {
                // The allocation is used again.
                break;
            }
            self.pending.pop_front();
        }
        self.drop_oldest();
        let mut done = 0;
        let result = write_counted(&mut self.index, &self.pending_index, &mut done);
        self.pending_index.drain(..done);
        result
    }

    fn drop_oldest(&mut self) {
        let before = self.segments.front().map(|start| start.offset);
        while self.segments.len() > 1
            && let Some(first) = self.segments.front()
            && self.offset - first.offset > self.cap
        {
            // A segment that cannot be removed now is only a file too many.
            let _ = fs::remove_file(self.path(first.offset));
            self.segments.pop_front();
        }
        if let Some(first) = self.segments.front().copied()
            && before != Some(first.offset)
        {
            self.index_line('x', first.offset, first.lines);
        }
    }

    /// The last `count` lines, for repainting.
    pub(super) fn last_lines(&self, count: usize) -> &[u8] {
        let mut breaks = self.tail.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n').skip(count);
        let from = breaks.next().map_or_else(|| usize::from(self.tail.len() > TAIL_BYTES), |(at, _)| at + 1);
        &self.tail[from..]
    }

    /// Makes the record survive a power cut; called once, at the end.
    pub(super) fn sync(&self) {
        if let Some(segment) = &self.segment {
            let _ = segment.sync_all();
        }
        let _ = self.index.sync_all();
    }

    fn path(&self, offset: u64) -> PathBuf {
        self.dir.join(segment_name(offset))
    }
}

fn segment_name(offset: u64) -> String {
    format!("{offset:016}.seg")
}

pub(super) fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

/// Like `write_all`, but says how far it came.
pub(super) fn write_counted(file: &mut File, bytes: &[u8], done: &mut usize) -> io::Result<()> {
    while *done < bytes.len() {
        match file.write(&bytes[*done..]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => *done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn keep_tail(tail: &mut Vec<u8>, bytes: &[u8]) {
    let bytes = &bytes[bytes.len().saturating_sub(TAIL_BYTES)..];
    if tail.len() + bytes.len() > 4 * TAIL_BYTES {
        let surplus = tail.len().saturating_sub(TAIL_BYTES);
        tail.drain(..surplus);
    }
    tail.extend_from_slice(bytes);
}
