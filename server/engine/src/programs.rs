//! Where programs are found: a fixed search path, not whatever the service was started with.

use std::path::PathBuf;

/// The search path of everything that is started.
pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Finds a program on [`PATH`].
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    PATH.split(':').map(|dir| PathBuf::from(dir).join(name)).find(|path| path.is_file())
}
