//! A backup of a running installation, and what comes out of it elsewhere.

#[path = "support/fleet.rs"]
mod fleet;
#[path = "support/server.rs"]
mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;

use fleet::{Fleet, items, session_dir, whole_record};
use opkit_domain::session::files;
use serde_json::{Value, json};
use support::{Server, run, wait_until};

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn restore(file: &Path, target: &Path) -> Output {
    let file = file.to_str().expect("UTF-8");
    let target = target.to_str().expect("UTF-8");
    run(Path::new("/"), &["restore", file, "--data", target], "")
}

fn entries(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).expect("a folder").flatten();
    names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn what_runs_is_copied_and_goes_on_elsewhere() {
    let fleet = Fleet::start(6);
    let done = fleet.add_script("good");
    assert_eq!(fleet.rests(done)["status"], "done", "{}", fleet.story(done));
    let blocked = fleet.add_script("blocked");
    assert_eq!(fleet.rests(blocked)["attention"], "blocked", "{}", fleet.story(blocked));
    let running = fleet.add_script("slow:12");
    let session = fleet.works(running);
    let waiting = fleet.add(&json!({"hold": true, "title": "Later", "script": "good"}));
    let folder = support::data_dir();
    let file = folder.path().join("all.tar.gz");
    let name = file.to_str().expect("UTF-8");
    let made = fleet.server.cli(&["backup", name, "--with-repositories", "--with-records"]);
    assert!(made.status.success(), "{}", errors(&made));
    let bits = fs::metadata(&file).expect("the archive").permissions().mode();
    assert_eq!(bits & 0o777, 0o600, "it holds keys");
    assert_eq!(entries(folder.path()), ["all.tar.gz"], "nothing else is left");
    assert!(!entries(&fleet.data().join("db")).iter().any(|name| name.starts_with("backup-")));
    assert_eq!(fleet.works(running), session, "the session does not notice");
    let commit = fleet.objective(done)["head_commit"].clone();

    let target = folder.path().join("elsewhere");
    let restored = restore(&file, &target);
    assert!(restored.status.success(), "{}", errors(&restored));
    let said = String::from_utf8_lossy(&restored.stdout).into_owned();
    assert!(said.contains("4 objectives") && said.contains("1 sessions ran"), "{said}");
    // Whole and closed, wherever it came from.
    for (name, bits) in [("db", 0o700), ("keys", 0o700), ("sessions", 0o700), ("keys/session-secret", 0o600)]
    {
        let mode = fs::metadata(target.join(name)).expect(name).permissions().mode();
        assert_eq!(mode & 0o777, bits, "{name}");
    }
    let ended = fleet.sessions(done)[0]["id"].as_str().expect("a session").to_owned();
    let (there, here) = (session_dir(&target, &ended), session_dir(fleet.data(), &ended));
    assert_eq!(whole_record(&there).bytes, whole_record(&here).bytes);
    assert!(!there.join(files::SPEC).exists(), "what opens doors is not in it");

    let data = support::data_dir();
    let place = data.path().to_owned();
    fs::remove_dir(&place).expect("an empty directory");
    fs::rename(&target, &place).expect("it is only files");
    let second = Server::start_in(data, &[]);
    let get = |path: &str| {
        let answer = second.request("GET", path).bearer(&fleet.token).send();
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        answer.json()
    };
    let card = |id: i64| get(&format!("/api/v1/objectives/{id}"));
    assert_eq!(card(done)["status"], "done");
    assert_eq!(card(done)["head_commit"], commit);
    assert_eq!(card(blocked)["attention"], "blocked");
    assert_eq!(card(waiting)["title"], "Later");
    wait_until("the session that ran to be lost", || {
        let list = items(get(&format!("/api/v1/objectives/{running}/sessions")));
        let lost = list.len() == 1 && list[0]["id"] == session.as_str() && list[0]["outcome"] == "lost";
        if lost { Ok(()) } else { Err(format!("{list:?}")) }
    });
    assert_eq!(items(get("/api/v1/sessions?state=live")), Vec::<Value>::new(), "nothing starts by itself");
    assert!(second.cli(&["enable"]).status.success());
    support::wait_within(std::time::Duration::from_secs(60), "the lost one to be done", || {
        let card = card(running);
        if card["status"] == "done" { Ok(()) } else { Err(card.to_string()) }
    });
    assert_eq!(fleet.rests(running)["status"], "done", "{}", fleet.story(running));
}

#[test]
fn a_small_one_without_a_server_and_without_repositories() {
    let fleet = Fleet::start(4);
    let done = fleet.add_script("good");
    assert_eq!(fleet.rests(done)["status"], "done", "{}", fleet.story(done));
    let token = fleet.token.clone();
    let signed = fleet.add(&json!({"type": "project", "script": "good", "title": "To be signed off"}));
    assert_eq!(fleet.rests(signed)["attention"], "sign_off", "{}", fleet.story(signed));
    let Fleet { server, folder: _repository, .. } = fleet;
    let (_, data) = server.terminate();
    // Its tmux servers go on without it, and nobody takes them over here.
    support::end_sessions(data.path());
    let folder = support::data_dir();
    let file = folder.path().join("small.tar");
    let made = run(data.path(), &["backup", file.to_str().expect("UTF-8")], "");
    assert!(made.status.success(), "{}", errors(&made));
    assert!(fs::metadata(&file).expect("it").len() < 2 << 20);

    let target = support::data_dir();
    let restored = restore(&file, target.path());
    assert!(restored.status.success(), "{}", errors(&restored));
    // The mirror is made again from its source; what was delivered only to the old mirror is said to be gone.
    let said = String::from_utf8_lossy(&restored.stdout).into_owned();
    assert!(said.contains(&format!("What #{signed} had delivered is not in this backup")), "{said}");
    let second = Server::start_in(target, &[]);
    let get = |path: &str| second.request("GET", path).bearer(&token).send().json();
    assert_eq!(get(&format!("/api/v1/objectives/{done}"))["status"], "done");
    assert!(second.cli(&["enable"]).status.success());
    let body = fleet::objective(&json!({"script": "good", "title": "New"})).to_string();
    let made = second.request("POST", "/api/v1/objectives").bearer(&token).json(&body).send();
    assert_eq!(made.status, 201, "{}", made.body);
    let id = made.json()["id"].as_i64().expect("a number");
    support::wait_within(std::time::Duration::from_secs(60), "new work to be done", || {
        let card = get(&format!("/api/v1/objectives/{id}"));
        if card["status"] == "done" { Ok(()) } else { Err(card.to_string()) }
    });
}

/// An archive with this manifest and these files.
fn archive(path: &Path, manifest: &Value, list: &[(&str, &[u8])]) {
    let mut tar = tar::Builder::new(fs::File::create(path).expect("a file"));
    let mut add = |name: &str, bytes: &[u8]| {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o600);
        // Written by hand: the crate itself refuses bad names.
        let field = &mut header.as_old_mut().name;
        field[..name.len()].copy_from_slice(name.as_bytes());
        header.set_cksum();
        tar.append(&header, bytes).expect("it is written");
    };
    add("MANIFEST.json", manifest.to_string().as_bytes());
    for (name, bytes) in list {
        add(name, bytes);
    }
    add("END", b"{}");
    tar.into_inner().expect("it ends");
}

#[test]
fn refusals_leave_nothing_behind() {
    let server = Server::with_owner();
    let folder = support::data_dir();
    let good = folder.path().join("good.tar");
    let name = good.to_str().expect("UTF-8");
    assert!(server.cli(&["backup", name]).status.success());
    let says = |args: &[&str], words: &str| {
        let output = server.cli(args);
        assert!(!output.status.success() && errors(&output).contains(words), "{args:?}: {}", errors(&output));
    };
    says(&["backup", name], "is there already");
    says(&["backup", "/nowhere/at/all.tar"], "Make the directory first");
    says(&["backup", folder.path().join("x.zip").to_str().expect("UTF-8")], ".tar.gz");
    says(&["backup", server.data.path().join("x.tar").to_str().expect("UTF-8")], "inside the data directory");

    let target = folder.path().join("target");
    let refused = |file: &Path, words: &str| {
        let output = restore(file, &target);
        assert!(!output.status.success() && errors(&output).contains(words), "{file:?}: {}", errors(&output));
        assert!(!target.exists(), "{file:?} left {:?}", entries(&target));
    };
    let bytes = fs::read(&good).expect("the archive");
    let bad = folder.path().join("bad.tar");
    for length in [0, 100, 512, 5000, bytes.len() / 2, bytes.len() - 2048] {
        fs::write(&bad, &bytes[..length]).expect("a file");
        refused(&bad, "no whole backup");
    }
    fs::write(&bad, b"this is no archive at all, but a letter to a friend".repeat(100)).expect("a file");
    refused(&bad, "no whole backup");
    let manifest = json!({"format": 1, "opkit": "0.1.0", "schema": 1, "root": "/x", "made_at": 0,
        "repositories": false, "records": false});
    for evil in ["../outside", "/etc/outside", "db/../../outside", "bin/opkit-session", "work/1/x"] {
        archive(&bad, &manifest, &[(evil, b"x")]);
        refused(&bad, "does not belong into one");
    }
    archive(&bad, &manifest, &[("db/opkit.db", b"SQLite format 3\0 and then nothing that is one")]);
    assert!(!restore(&bad, &target).status.success());
    assert!(!target.exists());
    for newer in [("format", json!(2)), ("schema", json!(9999)), ("opkit", json!("9.9.9"))] {
        let mut manifest = manifest.clone();
        manifest["schema"] = json!(9999);
        manifest[newer.0] = newer.1;
        archive(&bad, &manifest, &[]);
        refused(&bad, "newer than this one");
    }
    // Never over somebody's files.
    fs::create_dir(&target).expect("a folder");
    fs::write(target.join("mine"), "x").expect("a file");
    let output = restore(&good, &target);
    assert!(!output.status.success() && errors(&output).contains("not empty"), "{}", errors(&output));
    assert_eq!(entries(&target), ["mine"]);
    let output = restore(&good, server.data.path());
    assert!(!output.status.success() && errors(&output).contains("not empty"), "{}", errors(&output));
    // An empty directory that was there is still there after a refusal.
    fs::remove_file(target.join("mine")).expect("it");
    fs::write(&bad, &bytes[..5000]).expect("a file");
    assert!(!restore(&bad, &target).status.success());
    assert_eq!(entries(&target), Vec::<String>::new());
}
