//! Writes a tar archive of files that others may be changing meanwhile.

use std::fs;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::{BackedUp, private_file};
use crate::error::Result;

/// An archive that is being written.
pub(super) struct Archive {
    tar: tar::Builder<Sink>,
    files: u64,
}

enum Sink {
    Plain(BufWriter<fs::File>),
    Packed(Box<GzEncoder<BufWriter<fs::File>>>),
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Sink::Plain(file) => file.write(bytes),
            Sink::Packed(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Sink::Plain(file) => file.flush(),
            Sink::Packed(file) => file.flush(),
        }
    }
}

impl Archive {
    pub(super) fn create(path: &Path, packed: bool) -> Result<Archive> {
        let file = BufWriter::with_capacity(1 << 18, private_file(path)?);
        let sink = match packed {
            true => Sink::Packed(Box::new(GzEncoder::new(file, Compression::fast()))),
            false => Sink::Plain(file),
        };
        Ok(Archive { tar: tar::Builder::new(sink), files: 0 })
    }

    /// A small file that exists only here.
    pub(super) fn text(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        self.tar.append_data(&mut header(bytes.len() as u64, 0o600), name, bytes)?;
        self.files += 1;
        Ok(())
    }

    /// One file under another name.
    pub(super) fn file(&mut self, name: &Path, path: &Path) -> Result<()> {
        self.add(name, fs::File::open(path)?)
    }

    /// Everything below `root/name` that is wanted; nothing where nothing is. Links and special files stay away.
    pub(super) fn tree(&mut self, root: &Path, name: &Path, wanted: &dyn Fn(&Path) -> bool) -> Result<()> {
        let path = root.join(name);
        let meta = match fs::symlink_metadata(&path) {
            Ok(meta) => meta,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        if meta.is_file() {
            return match fs::File::open(&path) {
                Ok(file) => self.add(name, file),
                // Removed in this moment.
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                Err(error) => Err(error.into()),
            };
        }
        if !meta.is_dir() {
            return Ok(());
        }
        let mut directory = header(0, 0o700);
        directory.set_entry_type(tar::EntryType::Directory);
        self.tar.append_data(&mut directory, name, io::empty())?;
        let mut entries: Vec<_> = match fs::read_dir(&path) {
            Ok(entries) => entries.flatten().map(|entry| name.join(entry.file_name())).collect(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => vec![],
            Err(error) => return Err(error.into()),
        };
        entries.sort();
        entries
            .into_iter()
            .filter(|entry| wanted(entry))
            .try_for_each(|entry| self.tree(root, &entry, wanted))
    }

    /// As long as it is now: what is appended meanwhile is not of this backup, and what is cut off reads as zeros.
    fn add(&mut self, name: &Path, file: fs::File) -> Result<()> {
        let meta = file.metadata()?;
        let bits = if std::os::unix::fs::PermissionsExt::mode(&meta.permissions()) & 0o100 == 0 {
            0o600
        } else {
            0o700
        };
        let whole = file.chain(io::repeat(0)).take(meta.len());
        self.tar.append_data(&mut header(meta.len(), bits), name, whole)?;
        self.files += 1;
        Ok(())
    }

    /// Writes the end and makes it durable.
    pub(super) fn finish(self) -> Result<BackedUp> {
        let file = match self.tar.into_inner()? {
            Sink::Plain(file) => file,
            Sink::Packed(file) => file.finish()?,
        };
        let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        Ok(BackedUp { bytes: file.metadata()?.len(), files: self.files })
    }
}

fn header(size: u64, bits: u32) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Regular);
    header.set_size(size);
    header.set_mode(bits);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header
}
