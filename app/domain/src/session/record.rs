//! The record's segments and the lines of its index.

/// Size of a record segment, bytes. A segment's file name is its first offset, 16 decimal digits, then `.seg`.
pub const SEGMENT_BYTES: u64 = 4 << 20;

/// One line of the record's index: `offset ms kind lines`, separated by one space.
///
/// `offset` is a byte offset into the record at a line start, `ms` the milliseconds since 1970, `lines` the
/// number of lines before `offset`. Kinds: `d` data, `m` a mark (a step began), `x` segments before
/// `offset` were dropped, `e` an error line, `c` a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexLine {
    /// Byte offset of a line start.
    pub offset: u64,
    /// Milliseconds since 1970.
    pub ms: i64,
    /// The kind's letter.
    pub kind: char,
    /// Lines before the offset.
    pub lines: u64,
}

impl IndexLine {
    /// Reads one line; none for anything malformed (a torn last line, say).
    pub fn parse(text: &str) -> Option<IndexLine> {
        let mut words = text.split(' ');
        let line = IndexLine {
            offset: words.next()?.parse().ok()?,
            ms: words.next()?.parse().ok()?,
            kind: words.next()?.chars().next()?,
            lines: words.next()?.parse().ok()?,
        };
        words.next().is_none().then_some(line)
    }
}

impl std::fmt::Display for IndexLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {} {}", self.offset, self.ms, self.kind, self.lines)
    }
}
