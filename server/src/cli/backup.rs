//! `opkit backup` and `opkit restore`: an installation in one file, and out of it again.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use axum::http::Method;
use opkit_engine::{BackedUp, NewBackup};
use serde_json::json;

use super::arguments::BackupArgs;
use super::client::{Client, Reached};
use super::machine;
use super::output::{plain, say};

/// `backup FILE`: by the running server, else under its lock.
pub(super) async fn make(client: &Client, data: &Path, args: &BackupArgs) -> anyhow::Result<ExitCode> {
    let file = crate::config::absolute(&args.file)?;
    let new =
        NewBackup { file: file.clone(), repositories: args.with_repositories, records: args.with_records };
    let done: BackedUp = match client.try_call(Method::POST, "/control/v1/backup", Some(json!(new))).await? {
        Reached::Yes(answer) => {
            serde_json::from_value(answer).context("the server's answer is not understood")?
        }
        Reached::NoServer => machine::open_existing(data).await?.backup(&machine::me(), &new).await?,
    };
    say(plain(&format!("{}: {} files, {} bytes.", file.display(), done.files, done.bytes)));
    say("It holds keys: whoever can read it can act as this installation. Only its owner can.");
    if !args.with_repositories {
        say("Delivered branches that are not merged are not in it. Add --with-repositories to keep them.");
    }
    Ok(ExitCode::SUCCESS)
}

/// `restore FILE --data DIR`
pub(super) async fn restore(data: &Path, file: &Path) -> anyhow::Result<ExitCode> {
    let done = opkit_engine::restore(file, data).await?;
    // Opened once, so that what it needs is found out now; this also brings the schema up to date.
    let engine = machine::open(data).await.with_context(|| {
        format!("the backup is restored into {}, and cannot be opened there yet", data.display())
    })?;
    let missing = engine.settle_in().await?;
    engine.close().await;
    say(plain(&format!("Restored into {}: {} objectives.", data.display(), done.objectives)));
    if done.lost > 0 {
        say(format!("{} sessions ran when the backup was made. They are lost and go again.", done.lost));
    }
    for sentence in missing {
        say(plain(&sentence));
    }
    say(plain(&format!(
        "Nothing starts until you run: opkit enable --data {}. Do it when the old server does not run any more.",
        data.display()
    )));
    Ok(ExitCode::SUCCESS)
}
