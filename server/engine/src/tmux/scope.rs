//! A systemd scope for each tmux server: what happens to the service's unit does not happen to sessions.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// How scopes are made on this machine.
#[derive(Debug)]
pub(super) struct Scopes {
    program: PathBuf,
    /// The service is a person's: scopes are made by that person's manager, found through these variables.
    user: Option<Vec<(String, String)>>,
}

impl Scopes {
    /// None where systemd does not run the machine, as in a container.
    pub(super) fn find() -> Option<Scopes> {
        if !Path::new("/run/systemd/system").exists() {
            return None;
        }
        let program = crate::programs::find("systemd-run")?;
        let names = ["XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"];
        let user = (!rustix::process::geteuid().is_root()).then(|| {
            names.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?))).collect()
        });
        Some(Scopes { program, user })
    }

    /// What `systemd-run` itself needs to see. It reaches no tmux: `env -i` stands between.
    pub(super) fn environment(&self) -> &[(String, String)] {
        self.user.as_deref().unwrap_or_default()
    }

    /// `systemd-run --scope … -- env -i NAME=VALUE … COMMAND`
    pub(super) fn argv<'a>(
        &'a self,
        unit: &'a str,
        environment: &[(&str, &str)],
        command: &[&'a OsStr],
    ) -> Vec<Cow<'a, OsStr>> {
        let mut words = vec!["--scope".to_owned(), "--quiet".to_owned(), "--collect".to_owned()];
        words.extend(self.user.is_some().then(|| "--user".to_owned()));
        words.push(format!("--unit={unit}"));
        words.extend(["--", "/usr/bin/env", "-i"].map(str::to_owned));
        words.extend(environment.iter().map(|(name, value)| format!("{name}={value}")));
        let mut argv = vec![Cow::Borrowed(self.program.as_os_str())];
        argv.extend(words.into_iter().map(|word| Cow::Owned(OsString::from(word))));
        argv.extend(command.iter().map(|arg| Cow::Borrowed(*arg)));
        argv
    }
}

/// A unit's name, unlike every other: an old scope may still hold a process.
pub(super) fn unit(account: &str, random: &str) -> String {
    let safe: String = account.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
    format!("opkit-tmux-{safe}-{}", random.get(..8).unwrap_or(random))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argv(user: bool) -> Vec<String> {
        let program = PathBuf::from("/usr/bin/systemd-run");
        let bus = vec![("XDG_RUNTIME_DIR".to_owned(), "/run/user/1000".to_owned())];
        let scopes = Scopes { program, user: user.then_some(bus) };
        let unit = unit("ccuser-0", "0123456789abcdef");
        let command = [OsStr::new("/usr/bin/tmux"), OsStr::new("-S"), OsStr::new("/a b")];
        let argv = scopes.argv(&unit, &[("PATH", "/bin")], &command);
        argv.iter().map(|arg| arg.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn a_server_gets_a_scope_and_no_environment_but_ours() {
        let expected = [
            "/usr/bin/systemd-run",
            "--scope",
            "--quiet",
            "--collect",
            "--unit=opkit-tmux-ccuser-0-01234567",
            "--",
            "/usr/bin/env",
            "-i",
            "PATH=/bin",
            "/usr/bin/tmux",
            "-S",
            "/a b",
        ];
        assert_eq!(argv(false), expected);
        let mut of_a_person = expected.to_vec();
        of_a_person.insert(4, "--user");
        assert_eq!(argv(true), of_a_person);
    }

    #[test]
    fn a_unit_is_named_by_letters_digits_and_dashes() {
        assert_eq!(unit("a/../b c;%i", "01234567"), "opkit-tmux-abci-01234567");
    }
}
