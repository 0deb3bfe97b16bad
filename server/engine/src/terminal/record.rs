//! Reads a session's record: segments by byte offset, lines by the index.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use opkit_domain::session::{IndexLine, files};

/// Index lines kept in memory are at least this many bytes of record apart.
const STRIDE: u64 = 32 << 10;

/// No segment has more bytes.
const LARGEST: u64 = 64 << 20;

/// A reader of one record. It holds no file open, so a runner may drop old segments at any time.
#[derive(Debug)]
pub(crate) struct Record {
    dir: PathBuf,
    /// Where reading of the index goes on.
    index_read: u64,
    /// Thinned index: (offset, lines before it), ascending.
    marks: Vec<(u64, u64)>,
    errors: Vec<u64>,
    /// The compressed segment that was read last: where it begins, and its bytes.
    unpacked: Mutex<Option<(u64, Arc<Vec<u8>>)>>,
}

impl Record {
    pub(crate) fn open(session: &Path) -> Record {
        Record {
            dir: session.join(files::RECORD),
            index_read: 0,
            marks: vec![(0, 0)],
            errors: vec![],
            unpacked: Mutex::default(),
        }
    }

    /// First offsets of all segments, ascending.
    fn segments(&self) -> Vec<u64> {
        let Ok(entries) = std::fs::read_dir(&self.dir) else { return vec![] };
        let mut list: Vec<u64> = entries
            .flatten()
            .filter_map(|entry| {
                let name = entry.file_name();
                let name = name.to_str()?;
                name.strip_suffix(".gz").unwrap_or(name).strip_suffix(".seg")?.parse().ok()
            })
            .collect();
        list.sort_unstable();
        list.dedup();
        list
    }

    /// Where housekeeping puts a segment of a session that is over.
    fn packed(&self, first: u64) -> PathBuf {
        self.dir.join(format!("{first:016}.seg.gz"))
    }

    /// The bytes of a compressed segment.
    fn unpack(&self, first: u64) -> Option<Arc<Vec<u8>>> {
        let mut last = self.unpacked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, bytes)) = last.as_ref().filter(|(known, _)| *known == first) {
            return Some(bytes.clone());
        }
        let mut bytes = Vec::new();
        let file = File::open(self.packed(first)).ok()?;
        flate2::read::GzDecoder::new(file).take(LARGEST).read_to_end(&mut bytes).ok()?;
        let bytes = Arc::new(bytes);
        *last = Some((first, bytes.clone()));
        Some(bytes)
    }

    fn segment_len(&self, first: u64) -> u64 {
        match std::fs::metadata(self.segment(first)) {
            Ok(meta) => meta.len(),
            Err(_) => self.unpack(first).map_or(0, |bytes| bytes.len() as u64),
        }
    }

    fn segment(&self, first: u64) -> PathBuf {
        self.dir.join(format!("{first:016}.seg"))
    }

    /// Bytes written so far.
    pub(crate) fn len(&self) -> u64 {
        match self.segments().last() {
            Some(first) => first + self.segment_len(*first),
            None => 0,
        }
    }

    /// The first offset that is kept.
    pub(crate) fn oldest(&self) -> u64 {
        self.segments().first().copied().unwrap_or(0)
    }

    /// The number of the first line that is kept.
    pub(crate) fn oldest_line(&mut self) -> u64 {
        let oldest = self.oldest();
        if oldest == 0 { 0 } else { self.line_at(oldest) }
    }

    /// Reads at most `max` bytes from an offset.
    pub(crate) fn read(&self, from: u64, max: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        let segments = self.segments();
        for (at, first) in segments.iter().enumerate() {
            let end = segments.get(at + 1).copied().unwrap_or(u64::MAX);
            let position = from + bytes.len() as u64;
            let left = max.saturating_sub(bytes.len() as u64);
            if position >= end || position < *first || left == 0 {
                continue;
            }
            let Ok(mut file) = File::open(self.segment(*first)) else {
                let Some(all) = self.unpack(*first) else { break };
                let start = usize::try_from(position - first).unwrap_or(usize::MAX).min(all.len());
                let count = usize::try_from(left.min(end - position)).unwrap_or(usize::MAX);
                bytes.extend_from_slice(&all[start..start.saturating_add(count).min(all.len())]);
                continue;
            };
            if file.seek(SeekFrom::Start(position - first)).is_err()
                || file.take(left.min(end - position)).read_to_end(&mut bytes).is_err()
            {
                break;
            }
        }
        bytes
    }

    /// A line begins here: at 0, or after a newline.
    pub(crate) fn is_line_start(&self, offset: u64) -> bool {
        offset == 0 || self.read(offset - 1, 1) == b"\n" || offset == self.oldest()
    }

    /// Reads what the index has gained.
    fn refresh(&mut self) {
        let Ok(mut file) = File::open(self.dir.join(files::INDEX)) else { return };
        if file.seek(SeekFrom::Start(self.index_read)).is_err() {
            return;
        }
        let mut text = Vec::new();
        if file.read_to_end(&mut text).is_err() {
            return;
        }
        let Some(whole) = text.iter().rposition(|byte| *byte == b'\n') else { return };
        for line in text[..whole].split(|byte| *byte == b'\n') {
            let Some(line) = std::str::from_utf8(line).ok().and_then(IndexLine::parse) else { continue };
            if line.kind == 'e' {
                self.errors.push(line.lines);
            }
            // Where old segments were dropped the number must be exact.
            let last = self.marks.last().copied().unwrap_or_default();
            if line.offset >= last.0 + STRIDE || (line.kind == 'x' && line.offset > last.0) {
                self.marks.push((line.offset, line.lines));
            }
        }
        self.index_read += whole as u64 + 1;
    }

    /// The number of lines before an offset.
    pub(crate) fn line_at(&mut self, offset: u64) -> u64 {
        self.refresh();
        let at = self.marks.partition_point(|mark| mark.0 <= offset);
        let (mut position, mut lines) = self.marks[at.saturating_sub(1)];
        let oldest = self.oldest();
        if position < oldest {
            // The mark's bytes are gone; the next mark that is kept is the nearest truth.
            return self.marks.iter().find(|mark| mark.0 >= offset).map_or(lines, |mark| mark.1);
        }
        while position < offset {
            let bytes = self.read(position, (offset - position).min(1 << 20));
            if bytes.is_empty() {
                break;
            }
            lines += bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
            position += bytes.len() as u64;
        }
        lines
    }

    /// Where a window of about `window` bytes before `len` begins: a line start and its number.
    pub(crate) fn window_start(&mut self, len: u64, window: u64) -> (u64, u64) {
        let mut at = len.saturating_sub(window).max(self.oldest());
        if !self.is_line_start(at) {
            let bytes = self.read(at, len - at);
            at += bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |n| n + 1) as u64;
        }
        (at, self.line_at(at))
    }

    /// Lines by number, without their newline.
    pub(crate) fn lines_from(&mut self, first: u64, count: u32) -> Vec<Vec<u8>> {
        self.refresh();
        let first = first.max(self.oldest_line());
        let at = self.marks.partition_point(|mark| mark.1 <= first);
        let (mut position, mut line) = self.marks[at.saturating_sub(1)];
        let oldest = self.oldest();
        if position < oldest {
            (position, line) = (oldest, self.oldest_line());
        }
        let mut lines = Vec::new();
        let mut rest: Vec<u8> = Vec::new();
        while (lines.len() as u32) < count {
            let bytes = self.read(position, 256 << 10);
            if bytes.is_empty() {
                break;
            }
            position += bytes.len() as u64;
            for byte in bytes {
                if byte != b'\n' {
                    rest.push(byte);
                    continue;
                }
                let whole = std::mem::take(&mut rest);
                if line >= first && (lines.len() as u32) < count {
                    lines.push(whole);
                }
                line += 1;
            }
        }
        lines
    }

    /// Line numbers of the newest errors.
    pub(crate) fn errors(&mut self, most: usize) -> Vec<u64> {
        self.refresh();
        self.errors[self.errors.len().saturating_sub(most)..].to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(lines: u64) -> (tempfile::TempDir, Record, Vec<u8>) {
        let dir = tempfile::tempdir().unwrap();
        let record = dir.path().join(files::RECORD);
        std::fs::create_dir(&record).unwrap();
        let mut all = Vec::new();
        let mut index = String::new();
        for line in 0..lines {
            if line % 100 == 0 {
                index.push_str(&format!("{} 0 d {line}\n", all.len()));
            }
            all.extend_from_slice(format!("line {line}\n").as_bytes());
        }
        let half = all.len() / 2;
        std::fs::write(record.join(format!("{:016}.seg", 0)), &all[..half]).unwrap();
        std::fs::write(record.join(format!("{half:016}.seg")), &all[half..]).unwrap();
        std::fs::write(record.join(files::INDEX), index + "12 torn").unwrap();
        let reader = Record::open(dir.path());
        (dir, reader, all)
    }

    #[test]
    fn reads_across_segments_and_finds_lines_by_number_and_offset() {
        let (_dir, mut record, all) = record(20_000);
        assert_eq!(record.len(), all.len() as u64);
        assert_eq!(record.read(0, u64::MAX), all);
        assert_eq!(record.lines_from(12_345, 2), [b"line 12345".to_vec(), b"line 12346".to_vec()]);
        let offset = all.windows(10).position(|w| w == b"line 15000").unwrap() as u64;
        assert_eq!(record.line_at(offset), 15_000);
        let (at, number) = record.window_start(all.len() as u64, 1000);
        assert!(all[at as usize..].starts_with(format!("line {number}\n").as_bytes()));
        assert!(record.lines_from(19_999, 10).len() == 1);
    }

    #[test]
    fn a_compressed_record_reads_as_it_was() {
        let (dir, mut record, all) = record(20_000);
        let before = std::fs::read_dir(&record.dir).unwrap().count();
        crate::housekeeping::pack_session(dir.path()).unwrap();
        let names: Vec<_> =
            std::fs::read_dir(&record.dir).unwrap().flatten().map(|e| e.file_name()).collect();
        assert_eq!(names.len(), before);
        assert_eq!(
            names.iter().filter(|name| name.to_string_lossy().ends_with(".seg.gz")).count(),
            2,
            "{names:?}"
        );
        assert_eq!(record.len(), all.len() as u64);
        assert_eq!(record.read(0, u64::MAX), all);
        assert_eq!(record.read(all.len() as u64 / 2 - 3, 7), all[all.len() / 2 - 3..all.len() / 2 + 4]);
        assert!(record.read(all.len() as u64, 10).is_empty());
        assert_eq!(record.lines_from(12_345, 1), [b"line 12345".to_vec()]);
        assert!(record.is_line_start(0) && !record.is_line_start(3));
    }

    #[test]
    fn dropped_segments_are_said_and_not_invented() {
        let (dir, mut record, all) = record(20_000);
        let half = all.len() / 2;
        let before = all[..half].iter().filter(|byte| **byte == b'\n').count();
        let index = dir.path().join(files::RECORD).join(files::INDEX);
        std::fs::write(index, format!("0 0 d 0\n{half} 0 x {before}\n")).unwrap();
        std::fs::remove_file(dir.path().join(files::RECORD).join(format!("{:016}.seg", 0))).unwrap();
        assert_eq!(record.oldest(), all.len() as u64 / 2);
        assert!(record.read(0, 10).is_empty());
        let first = record.oldest_line();
        assert_eq!(first, before as u64);
        assert_eq!(record.lines_from(19_000, 1), [b"line 19000".to_vec()]);
    }
}
