//! Records and transcripts of sessions that are over are kept compressed; replay reads them as they are.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use opkit_domain::session::files;

use super::at_leisure;
use crate::clock::now_ms;
use crate::engine::Engine;
use crate::error::Result;
use crate::rescue::DAY_MS;

/// Smaller files gain nothing: a block is a block.
const SMALLEST: u64 = 4096;

impl Engine {
    /// Compresses what ended more than a day ago.
    pub(super) async fn pack_records(&self) -> Result<()> {
        let root = self.dirs().root.join("sessions");
        for name in super::names(&root)? {
            let dir = root.join(&name);
            if has_loose(&dir)
                && let Some(Some(ended)) = self.store().session_end(&name).await?
                && now_ms() - ended > DAY_MS
            {
                at_leisure(move || pack_session(&dir)).await??;
            }
        }
        Ok(())
    }
}

fn has_loose(dir: &Path) -> bool {
    let large = |path: &Path| fs::metadata(path).is_ok_and(|meta| meta.len() > SMALLEST);
    large(&dir.join(files::TRANSCRIPT)) || segments(dir).any(|path| large(&path))
}

fn segments(dir: &Path) -> impl Iterator<Item = std::path::PathBuf> {
    let entries = fs::read_dir(dir.join(files::RECORD)).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "seg"))
}

/// Compresses the transcript and the record's segments of a session.
pub(crate) fn pack_session(dir: &Path) -> io::Result<()> {
    let transcript = Some(dir.join(files::TRANSCRIPT)).filter(|path| path.is_file());
    for path in transcript.into_iter().chain(segments(dir)) {
        if fs::metadata(&path)?.len() > SMALLEST {
            pack(&path)?;
        }
    }
    Ok(())
}

/// The compressed file is whole and durable before the other one goes.
fn pack(path: &Path) -> io::Result<()> {
    let mut packed = path.as_os_str().to_owned();
    packed.push(".gz");
    let mut temporary = packed.clone();
    temporary.push(".new");
    let mut encoder = GzEncoder::new(File::create(&temporary)?, Compression::default());
    io::copy(&mut File::open(path)?, &mut encoder)?;
    encoder.finish()?.sync_all()?;
    fs::rename(temporary, packed)?;
    fs::remove_file(path)
}
