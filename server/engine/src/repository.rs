//! Repositories: registering, mirroring, resolving the base. Nothing runs in a person's checkout.

mod settings;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use opkit_domain::access::{Actor, Scope};
use opkit_domain::ids::RepositoryId;
use opkit_domain::objective::Integration;
use opkit_domain::view::RepoView;

use crate::engine::{Engine, NewRepo};
use crate::error::{Error, Result};
use crate::git::{branch_name, failure, short};
use crate::store::people::audit_in;
use crate::store::repositories::{NewRepoRow, RepoRow, insert};
use settings::command;

/// In a mirror: attributes of the tree never hide or change anything in an export.
const MIRROR_ATTRIBUTES: &str =
    "* -export-ignore -export-subst !filter !ident !text !eol !diff !merge !working-tree-encoding\n";

impl Engine {
    /// Registers a repository: checks it, mirrors it, resolves its base. Nothing is left behind on a refusal.
    pub async fn add_repo(&self, actor: &Actor, new: NewRepo) -> Result<RepoView> {
        self.operator(actor)?;
        let source = source(&new.source)?;
        let name = match &new.name {
            Some(name) => repo_name(name)?,
            None => repo_name(source_name(&source))?,
        };
        if self.store().repo_by_name(actor.scope, &name).await?.is_some() {
            return Err(Error::Conflict(format!(
                "A repository named “{name}” is registered already. Give another name."
            )));
        }
        let setup = command("set-up command", new.setup.as_deref())?.flatten();
        let verify = command("verify command", new.verify.as_deref())?.flatten();
        // The mirror is made under a number of its own and renamed once the row exists.
        let staging = self.dirs().root.join(format!("mirrors/new-{}.git", uuid::Uuid::new_v4().simple()));
        let prepared = self.prepare_mirror(&staging, &source, new.base.as_deref()).await;
        let base = match prepared {
            Ok(base) => base,
            Err(error) => {
                let _ = fs::remove_dir_all(&staging);
                return Err(error);
            }
        };
        let mut tx = self.store().begin().await?;
        let row = NewRepoRow {
            name: &name,
            source: &source,
            base: &base,
            setup: setup.as_deref(),
            verify: verify.as_deref(),
            integrate: new.integrate.unwrap_or(Integration::Keep),
        };
        let id = match insert(&mut tx, actor.scope, &row).await {
            Ok(id) => id,
            Err(error) => {
                let _ = fs::remove_dir_all(&staging);
                return Err(error);
            }
        };
        let detail = serde_json::json!({ "source": source, "base": base });
        audit_in(&mut tx, actor.scope, &actor.name, "repository_added", &name, &detail).await?;
        let mirror = self.dirs().mirror(id);
        let _ = fs::remove_dir_all(&mirror);
        fs::rename(&staging, &mirror)?;
        tx.commit().await?;
        self.changed();
        if let Some(commit) = self.commit_of(&mirror, &format!("refs/heads/{base}")).await? {
            self.note_base(id, &commit).await?;
        }
        self.pool().look();
        self.repo_view(actor.scope, id).await
    }

    async fn repo_view(&self, scope: Scope, id: RepositoryId) -> Result<RepoView> {
        let repos = self.repos(scope).await?;
        repos
            .into_iter()
            .find(|repo| repo.id == id)
            .ok_or_else(|| Error::NotFound("The repository vanished.".into()))
    }

    pub(crate) async fn prepare_mirror(
        &self,
        mirror: &Path,
        source: &str,
        base: Option<&str>,
    ) -> Result<String> {
        let made = self.git().as_owner(None, &["init", "-q", "--bare", &mirror.to_string_lossy()]).await?;
        if !made.ok {
            return Err(failure(&made));
        }
        self.close_mirror(mirror, source)?;
        fs::create_dir_all(mirror.join("info"))?;
        fs::write(mirror.join("info/attributes"), MIRROR_ATTRIBUTES)?;
        self.fetch_source(mirror, source).await?;
        let heads =
            self.git().must(mirror, &["for-each-ref", "--format=%(refname:strip=2)", "refs/heads"]).await?;
        let heads: Vec<&str> = heads.lines().filter(|head| !head.is_empty()).collect();
        if heads.is_empty() {
            return Err(Error::Refused(format!(
                "The repository {} has no commit yet. Make a first commit, then add it again.",
                short(source)
            )));
        }
        match base {
            Some(base) => {
                branch_name(base)?;
                if heads.contains(&base) {
                    Ok(base.to_owned())
                } else {
                    Err(Error::Refused(format!(
                        "The repository has no branch “{}”. It has: {}.",
                        short(base),
                        heads.iter().take(10).copied().collect::<Vec<_>>().join(", ")
                    )))
                }
            }
            None => self.default_branch(source, &heads).await,
        }
    }

    /// A mirror holds the whole repository: only the agents' user may read it. Where the registered path belongs to
    /// somebody else than root, its owner must read it too (merges are pushed as that owner), so it stays open.
    pub(crate) fn close_mirror(&self, mirror: &Path, source: &str) -> Result<()> {
        match (self.identity(), owner_of(source)?) {
            (None, _) => crate::data_dir::mode(mirror, 0o700),
            (Some(identity), None) => {
                std::os::unix::fs::lchown(mirror, None, Some(identity.gid))?;
                crate::data_dir::mode(mirror, 0o750)
            }
            (Some(_), Some(_)) => crate::data_dir::mode(mirror, 0o755),
        }
    }

    /// The source's own HEAD if it is a branch, else main or master, else the only branch.
    async fn default_branch(&self, source: &str, heads: &[&str]) -> Result<String> {
        let owner = owner_of(source)?;
        let head = self
            .git()
            .as_owner(owner, &["-c", &safe(source), "ls-remote", "--symref", "--", source, "HEAD"])
            .await?;
        let named = String::from_utf8_lossy(&head.stdout)
            .lines()
            .find_map(|line| line.strip_prefix("ref: refs/heads/")?.split('\t').next().map(str::to_owned));
        let chosen = named
            .filter(|name| heads.contains(&name.as_str()))
            .or_else(|| ["main", "master"].iter().find(|name| heads.contains(name)).map(|n| (*n).to_owned()))
            .or_else(|| (heads.len() == 1).then(|| heads[0].to_owned()));
        chosen.ok_or_else(|| {
            Error::Refused(format!(
                "The repository's base branch is not clear. Name it with --base; it has: {}.",
                heads.iter().take(10).copied().collect::<Vec<_>>().join(", ")
            ))
        })
    }

    /// Fetches all branches of the source into a mirror, as the source's owner where it is a path.
    pub(crate) async fn fetch_source(&self, mirror: &Path, source: &str) -> Result<()> {
        let refspec = "+refs/heads/*:refs/heads/*";
        // `obj/` is ours: whatever the source has there never overwrites a result.
        let not_ours = "^refs/heads/obj/*";
        let owner = owner_of(source)?;
        let output = match owner {
            None => {
                let args = [
                    "-c",
                    &safe(source),
                    "--git-dir",
                    &mirror.to_string_lossy(),
                    "fetch",
                    "-q",
                    "--no-tags",
                    "--no-write-fetch-head",
                    "--",
                    source,
                    refspec,
                    not_ours,
                ];
                self.git().as_owner(None, &args).await?
            }
            Some(owner) => {
                // The owner may read the source and not write the mirror: a bundle goes between.
                let handover =
                    self.dirs().root.join(format!("run/handover-{}", uuid::Uuid::new_v4().simple()));
                let bundle = self.bundle_as_owner(owner, source, &handover).await;
                let output = match bundle {
                    Ok(()) => {
                        let args = [
                            "--git-dir",
                            &mirror.to_string_lossy(),
                            "fetch",
                            "-q",
                            "--no-tags",
                            "--no-write-fetch-head",
                            "--",
                            &handover.to_string_lossy(),
                            refspec,
                            not_ours,
                        ];
                        self.git().as_owner(None, &args).await
                    }
                    Err(error) => Err(error),
                };
                let _ = fs::remove_file(&handover);
                output?
            }
        };
        if output.ok {
            return Ok(());
        }
        if let Some(lock) = lock_in_the_way(&output.stderr) {
            // The next look removes what is old enough.
            self.house_wake().notify_one();
            return Err(Error::Conflict(format!(
                "The mirror of {} is locked by {lock}. A lock that nobody holds is removed by itself within a few \
                 minutes: try again then.",
                short(source)
            )));
        }
        Err(Error::Refused(format!(
            "The repository {} cannot be read: {}",
            short(source),
            why(&output.stderr)
        )))
    }

    async fn bundle_as_owner(&self, owner: (u32, u32), source: &str, file: &Path) -> Result<()> {
        let heads = self
            .git()
            .as_owner(Some(owner), &["-C", source, "for-each-ref", "--count=1", "refs/heads"])
            .await?;
        if heads.ok && heads.stdout.is_empty() {
            return Err(Error::Refused(format!(
                "The repository {} has no commit yet. Make a first commit, then add it again.",
                short(source)
            )));
        }
        let out = fs::File::create(file)?;
        let made = self
            .git()
            .owner_to_file(owner, &["-C", source, "bundle", "create", "-q", "-", "--branches"], out)
            .await?;
        if made.ok {
            Ok(())
        } else {
            Err(Error::Refused(format!(
                "The repository {} cannot be read as its owner: {}",
                short(source),
                why(&made.stderr)
            )))
        }
    }

    /// Brings the mirror up to date and resolves a branch to a commit.
    pub(crate) async fn resolve_base(&self, repo: &RepoRow, base: &str) -> Result<String> {
        branch_name(base)?;
        let mirror = self.dirs().mirror(repo.id());
        let _turn = self.repo_turn(repo.id()).await;
        self.fetch_source(&mirror, &repo.source).await?;
        let commit = self.commit_of(&mirror, &format!("refs/heads/{base}")).await?.ok_or_else(|| {
            Error::Refused(format!("The repository “{}” has no branch “{}”.", repo.name, short(base)))
        })?;
        if base == repo.base {
            self.pool().base_is(repo.id(), &commit);
        }
        Ok(commit)
    }

    /// The commit a name stands for in a mirror.
    pub(crate) async fn commit_of(&self, mirror: &Path, name: &str) -> Result<Option<String>> {
        let wanted = format!("{name}^{{commit}}");
        let output = self
            .git()
            .run(mirror, &["rev-parse", "--verify", "--quiet", "--end-of-options", &wanted], 200)
            .await?;
        Ok(output.ok.then(|| output.text()))
    }

    /// Makes and registers the built-in sample repository.
    pub async fn add_sample_repo(&self, actor: &Actor) -> Result<RepoView> {
        self.operator(actor)?;
        if let Some(row) = self.store().repo_by_name(actor.scope, "sample").await? {
            return self.repo_view(actor.scope, row.id()).await;
        }
        let path = self.dirs().root.join("sample/hello");
        if !path.join(".git").exists() {
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path)?;
            let text = path.to_string_lossy().into_owned();
            for (name, content) in SAMPLE {
                let file = path.join(name);
                if let Some(dir) = file.parent() {
                    fs::create_dir_all(dir)?;
                }
                fs::write(file, content)?;
            }
            for args in [
                vec!["init", "-q", "--initial-branch=main", &text],
                vec!["-C", &text, "add", "-A"],
                vec!["-C", &text, "commit", "-q", "-m", "A small place to try things out"],
            ] {
                let output = self.git().as_owner(None, &args).await?;
                if !output.ok {
                    let _ = fs::remove_dir_all(&path);
                    return Err(failure(&output));
                }
            }
        }
        let new = NewRepo {
            source: path.to_string_lossy().into_owned(),
            name: Some("sample".into()),
            integrate: Some(Integration::Keep),
            ..NewRepo::default()
        };
        self.add_repo(actor, new).await
    }

    /// All repositories.
    pub async fn repos(&self, scope: Scope) -> Result<Vec<RepoView>> {
        let mut repos = self.store().repos(scope).await?;
        let notes = self.pool().notes();
        for repo in &mut repos {
            repo.ready = self.pool().ready(repo.id);
            repo.notes = notes.get(&repo.id).map(|(_, notes)| notes.clone()).unwrap_or_default();
        }
        Ok(repos)
    }

    pub(crate) async fn repo_row(&self, scope: Scope, id: RepositoryId) -> Result<RepoRow> {
        self.store().repo(scope, id).await
    }
}

const SAMPLE: &[(&str, &str)] = &[
    ("README.md", "# Sample\n\nA small repository that Opkit made, to try objectives on.\n"),
    ("greet.sh", "#!/bin/sh\n# Greets whoever is named, or the world.\necho \"Hello, ${1:-world}\"\n"),
    (
        "test.sh",
        "#!/bin/sh\n# Exit status 0 means that everything is as it should be.\nset -e\ntest \"$(sh greet.sh)\" = \"Hello, world\"\necho \"1 passed\"\n",
    ),
];

/// git's own reason in one sentence: its first fatal line.
fn why(stderr: &str) -> String {
    let line = stderr.lines().find_map(|line| line.strip_prefix("fatal: ")).or_else(|| stderr.lines().last());
    let line = line.unwrap_or("git gave no reason").trim_end_matches('.');
    if line.contains("does not appear to be a git repository") || line.contains("not a git repository") {
        return "it is not a git repository.".into();
    }
    format!("{}.", line.chars().filter(|c| !c.is_control()).take(300).collect::<String>())
}

/// Checks what a person gave as path or URL.
fn source(text: &str) -> Result<String> {
    let text = text.trim();
    if text.is_empty() {
        return Err(Error::BadInput("Give the path or URL of a git repository.".into()));
    }
    if text.len() > 2000 || text.chars().any(char::is_control) || text.starts_with('-') {
        return Err(Error::BadInput("That is not a path or URL of a git repository.".into()));
    }
    let url =
        ["https://", "http://", "ssh://", "git://", "file://"].iter().any(|scheme| text.starts_with(scheme));
    if url {
        return Ok(text.to_owned());
    }
    if text.contains("::") {
        return Err(Error::BadInput("That kind of address is not allowed. Use https, ssh or a path.".into()));
    }
    let path = PathBuf::from(text);
    if !path.is_absolute() {
        if text.contains('@') && text.contains(':') {
            return Ok(text.to_owned());
        }
        return Err(Error::BadInput(format!(
            "“{}” is not an absolute path. Give the whole path.",
            short(text)
        )));
    }
    let path = path.canonicalize().map_err(|error| {
        Error::Refused(format!("The repository {} cannot be read: {error}.", short(text)))
    })?;
    if !path.is_dir() {
        return Err(Error::Refused(format!("{} is not a directory.", short(text))));
    }
    Ok(path.to_string_lossy().into_owned())
}

/// The last part of a path or URL, without `.git`.
fn source_name(source: &str) -> &str {
    let last = source.trim_end_matches('/').rsplit(['/', ':']).next().unwrap_or(source);
    last.strip_suffix(".git").unwrap_or(last)
}

fn repo_name(text: &str) -> Result<String> {
    let text = text.trim();
    let fits = !text.is_empty()
        && text.len() <= 60
        && !text.starts_with(['-', '.'])
        && text.chars().all(|c| c.is_alphanumeric() || "-_. ".contains(c));
    if fits {
        Ok(text.to_owned())
    } else {
        Err(Error::BadInput(format!(
            "“{}” does not fit as a repository name. Use up to 60 letters, digits, spaces, dots, dashes.",
            short(text)
        )))
    }
}

/// `safe.directory` for one path; git honours it on the command line for our own process and its children
/// that it starts for a local fetch only through the environment, so the path's owner is used where it differs.
fn safe(source: &str) -> String {
    format!("safe.directory={source}")
}

/// The lock file that git names, below the mirror.
fn lock_in_the_way(stderr: &str) -> Option<String> {
    let at = stderr.find(".lock': File exists")?;
    let path = stderr[..at].rsplit('\'').next()?;
    Some(short(&format!("{}.lock", path.rsplit(".git/").next()?)))
}

/// The owner to become for a registered path: none for URLs, for our own paths, and when we are not root.
pub(crate) fn owner_of(source: &str) -> Result<Option<(u32, u32)>> {
    if !source.starts_with('/') {
        return Ok(None);
    }
    let meta = fs::metadata(source).map_err(|error| {
        Error::Refused(format!("The repository {} cannot be read: {error}.", short(source)))
    })?;
    let me = rustix::process::geteuid();
    Ok((me.is_root() && meta.uid() != me.as_raw()).then_some((meta.uid(), meta.gid())))
}
