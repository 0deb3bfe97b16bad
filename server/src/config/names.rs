//! Names of variables: a mistyped one is said, never silently ignored.

use std::path::Path;

use anyhow::bail;

/// Read from the environment, and from a `.env` file in the current directory.
const IN_BOTH: [&str; 4] =
    ["MAX_CONCURRENT_SESSIONS", "OPKIT_ACCOUNT_POLICY", "OPKIT_MIN_FREE_MB", "OPKIT_WALL"];
/// Read from the environment only.
const IN_ENVIRONMENT: [&str; 9] = [
    "OPKIT_CLAUDE",
    "OPKIT_DATA",
    "OPKIT_DEMO_SPEED",
    "OPKIT_LISTEN",
    "OPKIT_PUBLIC_URL",
    "OPKIT_RESTART_FIRST_S",
    "OPKIT_SITE",
    "OPKIT_TOKEN",
    "OPKIT_URL",
];
/// What a session sees. Somebody who starts a server from within one has them all.
const IN_SESSIONS: [&str; 11] = [
    "OPKIT_DOOR_FILE",
    "OPKIT_MEMORY",
    "OPKIT_OBJECTIVE",
    "OPKIT_POLICY",
    "OPKIT_REVIEW",
    "OPKIT_ROLE",
    "OPKIT_SCRATCH",
    "OPKIT_SESSION",
    "OPKIT_TOKEN_FILE",
    "OPKIT_WALL_MODE",
    "OPKIT_WORKTREE",
];

/// Refuses a `.env` file that says something to us which we do not understand.
pub(super) fn check_file(file: &Path, text: &str) -> anyhow::Result<()> {
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        let line = line.strip_prefix("export ").unwrap_or(line);
        let value = line.split_once('=');
        let name = value.map_or(line, |(name, _)| name).split_whitespace().next().unwrap_or_default();
        let is_known = IN_BOTH.contains(&name);
        // The file may be other programs' too: only what is plainly meant for us is judged.
        if !is_known && !name.starts_with("OPKIT_") {
            continue;
        }
        let place = format!("{}, line {}", file.display(), at + 1);
        if value.is_none() {
            bail!("{place}: {name} has no value. Write {name}=…");
        }
        if is_known {
            continue;
        }
        if IN_ENVIRONMENT.contains(&name) {
            bail!("{place}: {name} is not read from this file. Set it in the environment");
        }
        bail!("{place}: {}", unknown(name));
    }
    Ok(())
}

/// Sentences about variables of the environment that nothing reads.
pub(super) fn check_environment(names: impl Iterator<Item = String>) -> Vec<String> {
    let known = |name: &str| known().any(|known| known == name) || name.starts_with("OPKIT_TEST_");
    names.filter(|name| name.starts_with("OPKIT_") && !known(name)).map(|name| unknown(&name)).collect()
}

fn known() -> impl Iterator<Item = &'static str> {
    IN_BOTH.iter().chain(&IN_ENVIRONMENT).chain(&IN_SESSIONS).copied()
}

fn unknown(name: &str) -> String {
    let near = IN_BOTH
        .iter()
        .chain(&IN_ENVIRONMENT)
        .map(|known| (strsim::damerau_levenshtein(known, name), known))
        .min()
        .filter(|(distance, _)| *distance <= 6);
    match near {
        Some((_, near)) => format!("{name} is not known. Did you mean {near}?"),
        None => format!("{name} is not known. Remove it"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_name_is_refused_with_the_nearest_one() {
        let check = |text: &str| check_file(Path::new(".env"), text).map_err(|error| error.to_string());
        assert_eq!(check("# OPKIT_X=1\nPATH=/bin\nMAX_CONCURRENT_SESSIONS=3\nOPKIT_MIN_FREE_MB=9\n"), Ok(()));
        assert_eq!(
            check("A=1\nexport OPKIT_MINFREE_MB=9\n"),
            Err(".env, line 2: OPKIT_MINFREE_MB is not known. Did you mean OPKIT_MIN_FREE_MB?".into())
        );
        assert_eq!(
            check("OPKIT_SOMETHING_ELSE_ALTOGETHER=1"),
            Err(".env, line 1: OPKIT_SOMETHING_ELSE_ALTOGETHER is not known. Remove it".into())
        );
        assert_eq!(
            check("OPKIT_WALL hook_only"),
            Err(".env, line 1: OPKIT_WALL has no value. Write OPKIT_WALL=…".into())
        );
        let listen = check("OPKIT_LISTEN=127.0.0.1:1").unwrap_err();
        assert!(listen.ends_with("Set it in the environment"), "{listen}");
    }

    #[test]
    fn the_environment_is_only_warned_about() {
        let names = ["OPKIT_LISTN", "OPKIT_DATA", "OPKIT_SESSION", "HOME"].map(str::to_owned);
        let found = check_environment(names.into_iter());
        assert_eq!(found, ["OPKIT_LISTN is not known. Did you mean OPKIT_LISTEN?"]);
    }

    #[test]
    fn every_name_that_is_read_is_known() {
        let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
        let mut seen = 0;
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap().flatten() {
                if entry.file_type().unwrap().is_dir() {
                    folders.push(entry.path());
                    continue;
                }
                if entry.path().ends_with("config/names.rs") {
                    continue;
                }
                let text = std::fs::read_to_string(entry.path()).unwrap();
                for part in text.split("\"OPKIT_").skip(1) {
                    // A sentence may begin with a name; a name is nothing but letters and underscores.
                    let end = part.find(|c: char| !c.is_ascii_uppercase() && c != '_').unwrap();
                    let name = format!("OPKIT_{}", &part[..end]);
                    // Set by the build, not by people.
                    let built = ["OPKIT_EMBEDDED_BUILD_ID", "OPKIT_BUILD_ID"].contains(&name.as_str());
                    assert!(built || known().any(|known| known == name), "{name} in {:?}", entry.path());
                    seen += 1;
                }
            }
        }
        assert!(seen > 5);
    }
}
