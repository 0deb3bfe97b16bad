//! `opkit accounts …` and its REST: with a server and without, by role, on a terminal.
#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

#[path = "support/server.rs"]
mod support;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use support::{Server, data_dir, output_of, run};

/// OS users of one test. They and their homes are gone when it ends, however it ends.
struct Users(String, u32);

impl Users {
    /// None, said aloud, where the test cannot make users.
    fn new(letter: char, count: u32) -> Option<Users> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root can make OS users");
            return None;
        }
        Some(Users(format!("opks{letter}{}", std::process::id()), count))
    }
}

impl Drop for Users {
    fn drop(&mut self) {
        for number in 0..self.1 {
            let name = format!("{}-{number}", self.0);
            // A parallel change of the password file holds its lock for a moment.
            for _ in 0..20 {
                let gone = Command::new("userdel").arg(&name).output();
                if !gone.is_ok_and(|output| output.status.code() == Some(1)) {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(100));
            }
            let _ = fs::remove_dir_all(Path::new("/home").join(name));
        }
    }
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn listed(data: &Path) -> Value {
    serde_json::from_str(&output_of(data, &["accounts", "list", "--json"], "")).unwrap()
}

fn account<'a>(list: &'a Value, name: &str) -> &'a Value {
    list["items"].as_array().unwrap().iter().find(|account| account["name"] == name).expect(name)
}

/// A stand-in of the agent's program in a folder that every user can pass.
fn stand_in(dir: &Path, text: &str) -> String {
    let program = dir.join("claude");
    fs::write(&program, text).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    program.to_str().unwrap().to_owned()
}

#[test]
fn provisioning_works_without_a_server_and_beside_one() {
    let Some(users) = Users::new('a', 2) else { return };
    let data = data_dir();
    let args = ["accounts", "provision", "--count", "2", "--prefix", &users.0];
    let first = run(data.path(), &args, "");
    assert!(first.status.success(), "{}", said(&first));
    let name = format!("{}-1", users.0);
    assert!(said(&first).contains(&format!("ok {name}: OS user made")), "{}", said(&first));
    let server = Server::start_in(data, &[]);
    let second = server.cli(&args);
    assert!(second.status.success() && said(&second).contains("Nothing changed."), "{}", said(&second));
    let list = listed(server.data.path());
    let uid = fs::metadata(Path::new("/home").join(&name)).unwrap().uid();
    assert_eq!(account(&list, &name)["runs_as"], format!("{name} ({uid})"));
    assert!(list["mode"].as_str().unwrap().starts_with("os-users for 2 of 7"), "{}", list["mode"]);
    let tested = server.cli(&["accounts", "test", &name]);
    assert!(tested.status.success(), "{}", said(&tested));
    fs::set_permissions(Path::new("/home").join(&name), fs::Permissions::from_mode(0o500)).unwrap();
    let tested = server.cli(&["accounts", "test", &name]);
    assert_eq!(tested.status.code(), Some(1));
    let text = said(&tested);
    assert!(
        text.lines().any(|line| line.starts_with("!! ") && line.contains("is not writable by")),
        "{text}"
    );
    let text = output_of(server.data.path(), &["accounts", "list"], "");
    assert!(text.starts_with("Mode os-users for 2") && text.contains(&name), "{text}");
}

#[test]
fn nobody_but_root_provisions() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can become somebody else");
        return;
    }
    let dir = data_dir();
    let copy = dir.path().join("opkit");
    fs::copy(env!("CARGO_BIN_EXE_opkit"), &copy).unwrap();
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
    let output = Command::new(&copy)
        .args(["--data", "/var/tmp/opkit-none", "accounts", "provision"])
        .env_clear()
        .current_dir("/")
        .uid(65534)
        .gid(65534)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("only root can make OS users"), "{}", said(&output));
}

#[test]
fn accounts_are_added_disabled_and_enabled_by_admins_only() {
    let server = Server::with_owner();
    let data = server.data.path();
    output_of(data, &["accounts", "add", "team-1", "--limit", "2", "--git-name", "Team One"], "");
    assert_eq!(account(&listed(data), "team-1")["limit"], 2);
    assert_eq!(account(&listed(data), "team-1")["git_name"], "Team One");
    let again = server.cli(&["accounts", "add", "team-1"]);
    assert!(!again.status.success() && said(&again).contains("already"), "{}", said(&again));
    let root = server.cli(&["accounts", "add", "team-2", "--os-user", "root"]);
    assert_eq!(root.status.code(), Some(1), "{}", said(&root));
    for name in ["a/../b", "x y", "ä"] {
        assert_eq!(server.cli(&["accounts", "disable", name]).status.code(), Some(1), "{name}");
    }

    output_of(data, &["accounts", "disable", "team-1"], "");
    let list = listed(data);
    assert_eq!(account(&list, "team-1")["state"], "disabled");
    assert!(account(&list, "team-1")["reason"].as_str().unwrap().starts_with("Disabled by local:"), "{list}");
    output_of(data, &["accounts", "enable", "team-1"], "");
    assert_eq!(account(&listed(data), "team-1")["state"], "available");

    let post = |act: &str| server.request("POST", &format!("/api/v1/accounts/{act}"));
    let operator = post("team-1/disable").bearer(&server.token()).json("{}").send();
    assert_eq!((operator.status, operator.header("content-type")), (403, "application/problem+json"));
    let owner = |act: &str| post(act).header("cookie", &server.cookie()).header("origin", &server.origin());
    assert_eq!(owner("team-1/disable").json("{}").send().status, 200);
    assert_eq!(account(&listed(data), "team-1")["reason"], "Disabled by anna.");
    assert_eq!(owner("team-1/enable").json(r#"{"until":1}"#).send().status, 400);
    let missing = owner("nobody/enable").json("{}").send();
    assert_eq!((missing.status, missing.header("content-type")), (404, "application/problem+json"));
    for path in ["/control/v1/accounts", "/control/v1/accounts/team-1/key", "/control/v1/provision"] {
        let answer = server.request("POST", path).bearer(&server.token()).json("{}").send();
        assert_ne!(answer.status, 200, "{path} is not served over TCP");
    }
    let page = server.request("GET", "/accounts").header("cookie", &server.cookie()).send();
    assert!(page.body.contains("data-account=\"team-1\"") && page.body.contains("Mode "), "{}", page.body);
}

#[test]
fn a_key_goes_into_a_private_file_and_nowhere_else() {
    const KEY: &str = "sk-ant-api03-only-in-one-file";
    let server = Server::with_owner();
    let data = server.data.path();
    let stored = run(data, &["accounts", "key", "ccuser-2", "--stdin"], &format!("{KEY}\n"));
    assert!(stored.status.success() && !said(&stored).contains(KEY), "{}", said(&stored));
    let file = data.join("keys/ccuser-2");
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    assert_eq!(fs::read_to_string(&file).unwrap(), KEY);
    assert_eq!(account(&listed(data), "ccuser-2")["credential"], "own_key");
    assert!(!listed(data).to_string().contains(KEY));
    for entry in fs::read_dir(data.join("db")).unwrap() {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        assert!(!bytes.windows(KEY.len()).any(|part| part == KEY.as_bytes()), "the database never has it");
    }
    let unknown = run(data, &["accounts", "key", "nobody", "--stdin"], KEY);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(!data.join("keys/nobody").exists());
    assert_eq!(
        run(data, &["accounts", "key", "ccuser-2"], KEY).status.code(),
        Some(2),
        "never as an argument"
    );
}

#[test]
fn a_login_needs_a_terminal_and_gets_this_one() {
    let data = data_dir();
    // It looks around as an agent's program would: who, where, with a terminal, what it may write, what it may
    // do to the terminal of whoever started it.
    let program = stand_in(
        data.path(),
        "#!/bin/sh\n[ \"$1\" = --help ] && echo '  setup-token  a long-lived token' && exit 0\n\
         [ -t 0 ] && [ -t 1 ] && echo \"tty-yes $1 uid=$(id -u) home=$HOME config=$CLAUDE_CONFIG_DIR\"\n\
         touch \"$HOME/mine\" && echo home-yes\n\
         touch /var/tmp/opkit-login-escape 2>/dev/null && echo escaped\n\
         (: </dev/tty) 2>/dev/null && echo controls-the-terminal\nexit 0\n",
    );
    let variables = [("OPKIT_CLAUDE", program.as_str())];
    let server = Server::start_with(data, &[], &variables);
    let none = server.cli(&["accounts", "login", "ccuser-0"]);
    assert_eq!(none.status.code(), Some(1));
    assert!(said(&none).contains("opkit accounts key ccuser-0 --stdin"), "{}", said(&none));
    if !Path::new("/usr/bin/script").exists() {
        eprintln!("skipped: `script`, which makes a terminal, is not here");
        return;
    }
    let line = format!(
        "{} --data {} accounts login ccuser-0",
        env!("CARGO_BIN_EXE_opkit"),
        server.data.path().display()
    );
    let output = Command::new("/usr/bin/script")
        .args(["-q", "-e", "-c", &line, "/dev/null"])
        .env_remove("OPKIT_DATA")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = said(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("tty-yes setup-token uid=") && text.contains("home-yes"), "{text}");
    assert!(!text.contains("uid=0 ") && !text.contains("escaped"), "{text}");
    assert!(!text.contains("controls-the-terminal"), "it could type into the caller's shell: {text}");
    assert!(text.contains("opkit accounts key ccuser-0 --stdin"), "where the token goes: {text}");
    let home = server.data.path().join("accounts/ccuser-0");
    assert!(text.contains(&format!("home={0} config={0}/.claude", home.display())), "{text}");
    assert!(home.join("mine").exists() && !Path::new("/var/tmp/opkit-login-escape").exists());
}
