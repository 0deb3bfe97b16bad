//! The net diff of an objective's branch, bounded on the server and as data: names by NUL, hunks by line.

use std::path::Path;

use opkit_domain::access::Scope;
use opkit_domain::ids::ObjectiveId;
use opkit_domain::view::{DiffFile, DiffHunk, DiffLine, DiffView};

use crate::engine::Engine;
use crate::error::Result;
use crate::git::failure;

const MAX_FILES: usize = 200;
const MAX_LINES: usize = 5_000;
const MAX_LINE: usize = 400;
const MAX_BYTES: usize = 4 << 20;

impl Engine {
    /// What the delivered commit changes against the base commit.
    pub async fn diff(&self, scope: Scope, id: ObjectiveId) -> Result<DiffView> {
        let objective = self.store().objective(scope, id).await?;
        let (Some(base), Some(head)) = (&objective.base_commit, &objective.head_commit) else {
            return Ok(DiffView::default());
        };
        self.diff_between(&self.dirs().mirror(objective.repo), base, head).await
    }

    /// What one commit of a repository of ours changes against another.
    pub(crate) async fn diff_between(&self, dir: &Path, base: &str, head: &str) -> Result<DiffView> {
        let common = ["--no-ext-diff", "--no-textconv", "--no-color", "-M"];
        let mut args = vec!["diff"];
        args.extend(common);
        args.extend(["--numstat", "-z", base, head, "--"]);
        let list = self.git().run(dir, &args, MAX_BYTES).await?;
        if !list.ok && !list.cut {
            return Err(failure(&list));
        }
        let mut view = files(&list.stdout);
        let mut args = vec!["diff", "-U3"];
        args.extend(common);
        args.extend([base, head, "--"]);
        let patch = self.git().run(dir, &args, MAX_BYTES).await?;
        fill(&mut view, &patch.stdout);
        let total = view.files.len();
        if total > MAX_FILES {
            view.files.truncate(MAX_FILES);
            view.left_out = Some(format!("{} more files are not shown", total - MAX_FILES));
        } else if patch.cut {
            view.left_out = Some("the diff is larger than 4 MB; its end is not shown".into());
        }
        Ok(view)
    }
}

/// Reads `--numstat -z`: `added TAB removed TAB path NUL`, or for renames an empty path and two more fields.
fn files(bytes: &[u8]) -> DiffView {
    let mut view = DiffView::default();
    let mut fields = bytes.split(|byte| *byte == 0);
    while let Some(field) = fields.next() {
        let text = String::from_utf8_lossy(field);
        let mut parts = text.splitn(3, '\t');
        let (Some(added), Some(removed), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let binary = added == "-";
        let (added, removed) = (added.parse().unwrap_or(0), removed.parse().unwrap_or(0));
        let mut old_path = None;
        let mut path = shown(path);
        if path.is_empty() {
            old_path = fields.next().map(|old| shown(&String::from_utf8_lossy(old)));
            path = fields.next().map(|new| shown(&String::from_utf8_lossy(new))).unwrap_or_default();
        }
        view.added += added;
        view.removed += removed;
        let change = match (binary, &old_path) {
            (true, _) => "binary",
            (false, Some(_)) => "renamed",
            (false, None) => "modified",
        };
        view.files.push(DiffFile {
            path,
            old_path,
            change: change.into(),
            added,
            removed,
            hunks: vec![],
            note: binary.then(|| "Binary file".into()),
        });
    }
    view
}

/// A name for people: control characters replaced.
fn shown(name: &str) -> String {
    name.chars().take(1000).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// Hangs the hunks of the patch on the files: both are in the same order, so no name is read from the patch.
fn fill(view: &mut DiffView, patch: &[u8]) {
    let mut at: Option<usize> = None;
    let mut lines_left = MAX_LINES;
    let (mut old, mut new) = (0u32, 0u32);
    for raw in patch.split(|byte| *byte == b'\n') {
        if raw.starts_with(b"diff --git ") {
            at = Some(at.map_or(0, |at| at + 1));
            continue;
        }
        let Some(file) = at.and_then(|at| view.files.get_mut(at)) else { continue };
        if raw.starts_with(b"@@ ") {
            let head = String::from_utf8_lossy(raw);
            (old, new) = starts(&head);
            if lines_left > 0 {
                file.hunks.push(DiffHunk { head: shown(&head).chars().take(200).collect(), lines: vec![] });
            }
            continue;
        }
        let Some(hunk) = file.hunks.last_mut() else {
            if raw.starts_with(b"new file mode") {
                file.change = "added".into();
            } else if raw.starts_with(b"deleted file mode") {
                file.change = "deleted".into();
            }
            continue;
        };
        let (Some(mark @ (b' ' | b'+' | b'-')), text) = (raw.first(), raw.get(1..).unwrap_or_default())
        else {
            continue;
        };
        if lines_left == 0 {
            file.note = Some("The rest is not shown: the diff is long.".into());
            continue;
        }
        lines_left -= 1;
        let mut line = DiffLine { mark: char::from(*mark), old: None, new: None, text: clipped(text) };
        if *mark != b'+' {
            line.old = Some(old);
            old += 1;
        }
        if *mark != b'-' {
            line.new = Some(new);
            new += 1;
        }
        hunk.lines.push(line);
    }
}

fn clipped(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(&text[..text.len().min(MAX_LINE * 4)]);
    let mut line: String = text
        .chars()
        .take(MAX_LINE)
        .map(|c| if c.is_control() && c != '\t' { '\u{fffd}' } else { c })
        .collect();
    if text.chars().count() > MAX_LINE {
        line.push('…');
    }
    line
}

/// First line numbers of `@@ -1,3 +1,4 @@`.
fn starts(head: &str) -> (u32, u32) {
    let number = |word: Option<&str>| {
        word.and_then(|word| word.get(1..)?.split(',').next()?.parse().ok()).unwrap_or(0)
    };
    let mut words = head.split(' ').skip(1);
    (number(words.next()), number(words.next()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_the_list_and_hunks_by_order() {
        let mut view = files("1\t0\tä b\0-\t-\timage.png\x002\t1\t\0old\0new\0".as_bytes());
        assert_eq!(view.files.len(), 3);
        assert_eq!((view.files[0].path.as_str(), view.files[2].old_path.as_deref()), ("ä b", Some("old")));
        fill(
            &mut view,
            b"diff --git a/x b/x\nnew file mode 100644\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+diff --git evil\n\
              diff --git a/i b/i\nBinary files differ\ndiff --git a/o b/n\n@@ -1,2 +1,3 @@ fn a\n a\n-b\n+c\n+d\n",
        );
        assert_eq!(view.files[0].change, "added");
        assert_eq!(view.files[0].hunks[0].lines[0].text, "diff --git evil");
        let lines: Vec<_> = view.files[2].hunks[0].lines.iter().map(|l| (l.mark, l.old, l.new)).collect();
        assert_eq!(
            lines,
            [(' ', Some(1), Some(1)), ('-', Some(2), None), ('+', None, Some(2)), ('+', None, Some(3))]
        );
        assert_eq!(view.files[1].note.as_deref(), Some("Binary file"));
    }
}
