//! `enter` by itself: what it refuses, and what holds behind the wall.

#[path = "support/place.rs"]
mod place;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Stdio;

use opkit_domain::session::{WallMode, WallSpec};
use opkit_session::enter::{EXIT_REFUSED, EnterReport, EnterSpec, Entry, ProcessLimits};
use place::{Place, is_root};

fn spec(place: &Place, script: &str) -> EnterSpec {
    EnterSpec {
        identity: place.spec.identity.clone(),
        wall: place.spec.wall.clone(),
        cwd: place.worktree(),
        argv: ["/bin/sh", "-c", script].map(str::to_owned).to_vec(),
        env: vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned()), ("CANARY".to_owned(), "yes".to_owned())],
        limits: ProcessLimits::default(),
        new_session: true,
    }
}

/// Status, output and report.
fn enter(spec: &EnterSpec) -> (Option<i32>, String, Option<EnterReport>) {
    let mut entry = Entry::new(Path::new(env!("CARGO_BIN_EXE_opkit-session")), spec).expect("an entry");
    let output = entry.command.stdin(Stdio::null()).output().expect("it runs");
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output.status.code(), text, entry.report())
}

#[test]
fn it_never_runs_as_root_or_half_a_wall() {
    let place = Place::new("good");
    let base = spec(&place, "echo RAN");
    let mut table = Vec::new();
    if is_root() {
        let mut nobody_named = base.clone();
        nobody_named.identity = None;
        table.push((nobody_named, "never as root"));
        let mut root_named = base.clone();
        if let Some(identity) = &mut root_named.identity {
            identity.gid = 0;
        }
        table.push((root_named, "never as root"));
    }
    let mut relative = base.clone();
    relative.argv[0] = "sh".to_owned();
    table.push((relative, "not an absolute path"));
    let mut whole = base.clone();
    whole.wall.write.push("/".into());
    table.push((whole, "cannot be built around"));
    let mut missing = base.clone();
    missing.argv[0] = "/usr/bin/no-such-program".to_owned();
    table.push((missing, "cannot be started"));
    let mut nowhere = base;
    nowhere.cwd = place.root().join("nowhere");
    table.push((nowhere, "cannot be entered"));
    for (spec, expected) in table {
        let (status, text, report) = enter(&spec);
        assert_eq!(status, Some(i32::from(EXIT_REFUSED)), "{text}");
        assert!(text.contains(expected) && !text.contains("RAN"), "{text}");
        assert!(matches!(report, Some(EnterReport::Refused(reason)) if reason.contains(expected)));
    }
}

#[test]
fn behind_the_wall_there_is_no_way_out() {
    let place = Place::new("good");
    let socket = place.root().join("door/socket");
    let _listener = UnixListener::bind(&socket).expect("a socket");
    let open = place.root().join("open");
    fs::create_dir(&open).expect("a directory");
    fs::write(open.join("there"), "text").expect("a file");
    for path in [&open, &open.join("there"), &socket] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).expect("mode");
    }
    let tries = [
        "echo x > $R/policy/x",
        "echo x >> $R/policy/policy.json",
        "cd .. && echo x > x",
        "mkdir $R/door/d",
        "ln -s /etc $R/door/l",
        "mv README $R/door/README",
        "ln README $R/door/hard",
        "rm $R/policy/policy.json",
        "truncate -s 0 $R/policy/gitconfig",
        "kill -0 $PPID",
        "python3 -c 'import socket,sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])' $R/door/socket",
        // File modes would allow these; only Landlock does not.
        "echo x > $R/open/x",
        "mkdir $R/open/d",
        "ln -s /etc $R/open/l",
        "ln README $R/open/hard",
        "mv README $R/open/moved",
        "echo x >> $R/open/there",
        "truncate -s 0 $R/open/there",
        "rm $R/open/there",
        "python3 -c 'import os,sys; os.rename(sys.argv[1], sys.argv[2])' README $R/open/renamed",
    ];
    let lines: Vec<String> = tries
        .iter()
        .map(|t| {
            format!("if ( {t} ) 2>/dev/null; then echo \"OUT: {}\"; fi", t.replace(['"', '$', '\''], ""))
        })
        .collect();
    let root = place.root().display().to_string();
    let script = format!(
        "R={root}; echo r > README; {}; echo x > in && echo in; env; ls /proc/self/fd; ulimit -c",
        lines.join("; ")
    );
    let (status, text, report) = enter(&spec(&place, &script));
    assert_eq!(status, Some(0), "{text}");
    assert!(!text.contains("OUT:"), "{text}");
    assert!(text.contains("\nin\n") || text.starts_with("in\n"), "{text}");
    assert!(text.contains("CANARY=yes") && !text.contains("CARGO"), "{text}");
    // 0, 1, 2 and the one that `ls` opened itself.
    assert!(text.contains("0\n1\n2\n3\n0\n"), "{text}");
    assert!(matches!(report, Some(EnterReport::Proof(_))));
    assert_eq!(fs::read_to_string(open.join("there")).expect("a file"), "text");
    assert_eq!(fs::read_dir(&open).expect("a directory").count(), 1);
}

#[test]
fn reads_are_an_allow_list_when_there_is_one() {
    let mut place = Place::new("good");
    let root = place.root();
    let system = ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/proc"].map(Into::into);
    let ours = ["bin", "policy", "door", "mirror.git"].map(|name| root.join(name));
    place.spec.wall.read = Some(system.into_iter().chain(ours).collect());
    place.spec.wall.prove_no_read = vec![root.join("db/opkit.db"), root.join("seed/README.md")];
    let exit = place.run();
    assert_eq!(exit.outcome.as_str(), "finished", "{}\n{}", exit.detail, place.record());
    let (_, text, _) = enter(&EnterSpec {
        wall: place.spec.wall.clone(),
        ..spec(&place, &format!("cat {}/seed/README.md", root.display()))
    });
    assert!(text.contains("Permission denied"), "{text}");
}

#[test]
fn hook_only_is_no_wall_and_says_so() {
    let place = Place::new("good");
    let open = place.root().join("open");
    fs::create_dir(&open).expect("a directory");
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).expect("mode");
    let script = "echo x > $O/x && grep NoNewPrivs /proc/self/status | tr -d '\\t' && id -u && \
                  python3 -c 'import socket; socket.socket(socket.AF_UNIX)' 2>&1 | tail -1";
    let mut spec = spec(&place, &script.replace("$O", &open.display().to_string()));
    spec.wall = WallSpec { mode: WallMode::HookOnly, prove_no_write: vec![open.clone()], ..spec.wall };
    let (status, text, report) = enter(&spec);
    assert_eq!(status, Some(0), "{text}");
    // Landlock is gone; another user, no new privileges and the filter are not.
    assert!(open.join("x").exists());
    assert!(text.contains("NoNewPrivs:1\n") && !text.contains("\n0\n"), "{text}");
    assert!(text.contains("PermissionError"), "{text}");
    let Some(EnterReport::Proof(proof)) = report else { panic!("no proof") };
    assert_eq!((proof.mode, proof.landlock_abi, proof.seccomp), (WallMode::HookOnly, 0, true));
    assert!(proof.tried.iter().any(|line| line.what == "write" && line.answer == "allowed"), "{proof:?}");
}

/// The other door answers "no such call", and the program lives.
#[cfg(target_arch = "x86_64")]
#[test]
fn calls_of_a_foreign_architecture_do_not_exist() {
    let place = Place::new("good");
    for sockets in [true, false] {
        let mut spec = spec(&place, "");
        spec.wall.block_unix_sockets = sockets;
        spec.argv = [env!("CARGO_BIN_EXE_opkit-session"), "attack", "--inside", "foreign socket"]
            .map(str::to_owned)
            .to_vec();
        spec.argv[0] = place.root().join("bin/opkit-session").display().to_string();
        let (status, text, _) = enter(&spec);
        assert_eq!(status, Some(1), "{text}");
        assert!(text.contains("(os error 38)"), "{text}");
    }
}

#[test]
fn files_have_a_largest_size_and_processes_a_number() {
    let place = Place::new("good");
    let mut spec = spec(&place, "ulimit -f; cat /proc/self/limits | grep processes");
    spec.limits = ProcessLimits { processes: Some(4000), file_bytes: Some(1 << 20) };
    let (status, text, _) = enter(&spec);
    assert_eq!(status, Some(0), "{text}");
    assert!(text.starts_with("2048\n") && text.contains("4000                 4000"), "{text}");
}
