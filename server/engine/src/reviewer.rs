//! The reviewer's side: its masked directory, and the verdict it leaves.

use std::fs;

use opkit_domain::verdict::{self, Expected, Verdict};

use crate::data_dir::mode;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::store::objectives::Objective;
use crate::store::repositories::RepoRow;
use crate::store::sessions::SessionRow;

/// A diff for the reviewer is cut here; the export has everything.
const DIFF_BYTES: usize = 2 << 20;

impl Engine {
    /// Fills `review/<session>`: brief, criteria, artifact, net diff; the export itself is unpacked by the runner.
    pub(crate) async fn prepare_review(
        &self,
        row: &SessionRow,
        objective: &Objective,
        repo: &RepoRow,
    ) -> Result<()> {
        let commit = row.commit.as_deref().ok_or_else(|| Error::Refused("Nothing was delivered.".into()))?;
        let base = objective.base_commit.as_deref().unwrap_or_default();
        let mirror = self.dirs().mirror(repo.id());
        let review = self.dirs().review(&row.id);
        let put = |name: &str, bytes: &[u8]| -> Result<()> {
            let path = review.join(name);
            fs::write(&path, bytes)?;
            mode(&path, 0o644)
        };
        put("brief.md", format!("# {}\n\n{}\n", objective.title, objective.brief).as_bytes())?;
        let criteria = serde_json::json!({
            "objective": objective.id,
            "session": row.id,
            "commit": commit,
            "nonce": row.nonce,
            "criteria": objective.criteria.iter().enumerate().map(|(index, criterion)| serde_json::json!({
                "index": index, "text": criterion.text, "check": criterion.check,
            })).collect::<Vec<_>>(),
        });
        put("criteria.json", &serde_json::to_vec_pretty(&criteria)?)?;
        let (artifact, _) = self.store().memory(row.scope, objective.id).await?;
        put("ARTIFACT.md", artifact.unwrap_or_default().as_bytes())?;
        let args = ["diff", "--no-ext-diff", "--no-textconv", "--no-color", base, commit, "--"];
        let diff = self.git().run(&mirror, &args, DIFF_BYTES).await?;
        let mut patch = diff.stdout;
        if diff.cut {
            patch.extend_from_slice(b"\n[cut here: the diff is longer]\n");
        }
        put("diff.patch", &patch)?;
        let tar = self.dirs().session(&row.id).join("tree.tar");
        self.git().to_file(&mirror, &["archive", "--format=tar", commit], &tar).await
    }

    /// Reads the verdict of an ended review, after every process of it is gone.
    pub(crate) fn read_verdict(&self, row: &SessionRow, objective: &Objective) -> Result<Verdict, String> {
        let out = self.dirs().review(&row.id).join("out");
        let bytes = crate::memory::read_bytes(&out, "VERDICT.json")?;
        let expected = Expected {
            objective: objective.id,
            session: row.id.clone(),
            commit: row.commit.clone().unwrap_or_default(),
            nonce: row.nonce.clone().unwrap_or_default(),
            criteria: objective.criteria.len(),
        };
        verdict::read(&bytes, &expected).map_err(|error| error.0)
    }
}
