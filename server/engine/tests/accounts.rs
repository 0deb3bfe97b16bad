//! Accounts: OS users that are made and mended, states that claims obey, credentials that stay where they belong.
#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

mod support;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use opkit_domain::access::{Access, Actor};
use opkit_domain::objective::{Status, SubState};
use opkit_domain::session::Role;
use opkit_domain::view::Credential;
use opkit_engine::{Config, Engine, Error, NewAccount, SessionQuery};
use support::{SCOPE, World, bug, open_dir, session_binary};

/// OS users of one test. They and their homes are gone when it ends, however it ends.
struct Users {
    prefix: String,
    count: u32,
}

impl Users {
    /// None, said aloud, where the test cannot make users.
    fn new(letter: char, count: u32) -> Option<Users> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root can make OS users");
            return None;
        }
        Some(Users { prefix: format!("opkt{letter}{}", std::process::id()), count })
    }

    fn name(&self, number: u32) -> String {
        format!("{}-{number}", self.prefix)
    }

    fn home(&self, number: u32) -> PathBuf {
        Path::new("/home").join(self.name(number))
    }
}

impl Drop for Users {
    fn drop(&mut self) {
        for number in 0..self.count {
            let name = self.name(number);
            // A parallel change of the password file holds its lock for a moment.
            for _ in 0..20 {
                let gone = Command::new("userdel").arg(&name).output();
                if !gone.is_ok_and(|output| output.status.code() == Some(1)) {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(100));
            }
            let _ = fs::remove_dir_all(self.home(number));
        }
    }
}

fn passwd(name: &str) -> Option<Vec<String>> {
    let text = fs::read_to_string("/etc/passwd").unwrap();
    let line = text.lines().find(|line| line.split(':').next() == Some(name))?;
    Some(line.split(':').map(str::to_owned).collect())
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn chmod(path: &Path, bits: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(bits)).unwrap();
}

/// An engine that knows a stand-in of the agent's program; nothing is started.
async fn with_agent(dir: &Path) -> Engine {
    let program = dir.join("claude");
    fs::write(&program, "#!/bin/sh\necho \"9.9 as $(id -u)\"\n").unwrap();
    chmod(&program, 0o755);
    let config = Config {
        data: dir.join("data"),
        session_binary: session_binary(),
        build_id: "test".into(),
        agent_claude: Some(program),
        ..Config::default()
    };
    Engine::open(config).await.unwrap()
}

fn owner() -> Actor {
    Actor::system("owner")
}

#[tokio::test(flavor = "multi_thread")]
async fn provisioning_twice_changes_nothing_and_mends_what_was_broken() {
    let Some(users) = Users::new('a', 2) else { return };
    let dir = open_dir();
    let engine = with_agent(dir.path()).await;
    let first = engine.provision(&owner(), &users.prefix, 2).await.unwrap();
    assert!(first.lines.iter().all(|line| line.0) && first.changed == 2, "{first:?}");
    let (name, home) = (users.name(0), users.home(0));
    let entry = passwd(&name).expect("the user is there");
    assert!(entry[6].ends_with("nologin"), "{entry:?}");
    let uid: u32 = entry[2].parse().unwrap();
    let config = home.join(".claude");
    for path in [&home, &config] {
        assert_eq!((mode(path), fs::metadata(path).unwrap().uid()), (0o700, uid), "{}", path.display());
    }
    let git = fs::read_to_string(home.join(".gitconfig")).unwrap();
    assert!(git.contains(&format!("name = \"{name}\"")), "{git}");
    assert_eq!(fs::metadata(home.join(".gitconfig")).unwrap().uid(), uid);
    let accounts = engine.accounts().await.unwrap();
    let account = accounts.iter().find(|account| account.name == name).unwrap();
    assert_eq!(account.os_user.as_deref(), Some(name.as_str()));
    assert_eq!((account.runs_as.as_str(), account.limit), (format!("{name} ({uid})").as_str(), 5));

    let second = engine.provision(&owner(), &users.prefix, 2).await.unwrap();
    assert!(second.lines.iter().all(|line| line.0) && second.changed == 0, "{second:?}");

    chmod(&home, 0o755);
    std::os::unix::fs::chown(&config, Some(0), Some(0)).unwrap();
    let third = engine.provision(&owner(), &users.prefix, 2).await.unwrap();
    assert_eq!(third.changed, 1, "{third:?}");
    assert_eq!((mode(&home), fs::metadata(&config).unwrap().uid()), (0o700, uid));
    let mode = engine.account_pool(SCOPE).await.unwrap().mode;
    assert!(mode.starts_with("os-users for 2 of 7"), "{mode}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_planted_in_a_home_is_never_followed() {
    let Some(users) = Users::new('b', 1) else { return };
    let dir = open_dir();
    let engine = with_agent(dir.path()).await;
    engine.provision(&owner(), &users.prefix, 1).await.unwrap();
    let victim = dir.path().join("victim");
    fs::create_dir(&victim).unwrap();
    chmod(&victim, 0o755);
    fs::write(dir.path().join("file"), "kept").unwrap();
    let config = users.home(0).join(".claude");
    fs::remove_dir(&config).unwrap();
    symlink(&victim, &config).unwrap();
    let git = users.home(0).join(".gitconfig");
    fs::remove_file(&git).unwrap();
    symlink(dir.path().join("file"), &git).unwrap();
    let done = engine.provision(&owner(), &users.prefix, 1).await.unwrap();
    let (fine, line) = &done.lines[0];
    assert!(!fine && line.contains("is a link"), "{line}");
    assert_eq!((mode(&victim), fs::metadata(&victim).unwrap().uid()), (0o755, 0));
    fs::remove_file(&config).unwrap();
    let done = engine.provision(&owner(), &users.prefix, 1).await.unwrap();
    assert!(!done.lines[0].0 && done.lines[0].1.contains(".gitconfig"), "{done:?}");
    assert_eq!(fs::read_to_string(dir.path().join("file")).unwrap(), "kept");
    assert_eq!(fs::metadata(dir.path().join("file")).unwrap().uid(), 0);
    // A whole home that is a link is another way to the same.
    fs::remove_file(&git).unwrap();
    fs::remove_dir_all(users.home(0)).unwrap();
    symlink(&victim, users.home(0)).unwrap();
    let done = engine.provision(&owner(), &users.prefix, 1).await.unwrap();
    fs::remove_file(users.home(0)).unwrap();
    assert!(!done.lines[0].0 && done.lines[0].1.contains("is a link"), "{done:?}");
    assert_eq!(fs::metadata(&victim).unwrap().uid(), 0);
    assert_eq!(fs::read_dir(&victim).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_existing_user_is_adopted_as_it_is_and_root_never() {
    let Some(users) = Users::new('c', 1) else { return };
    let dir = open_dir();
    let engine = with_agent(dir.path()).await;
    let home = dir.path().join("home");
    let made = Command::new("useradd")
        .args(["--create-home", "--shell", "/bin/false", "--home-dir"])
        .arg(&home)
        .arg(users.name(0))
        .status()
        .unwrap();
    assert!(made.success());
    chmod(&home, 0o711);
    let before = passwd(&users.name(0));
    let done = engine.provision(&owner(), &users.prefix, 1).await.unwrap();
    assert!(done.lines[0].0, "{done:?}");
    assert_eq!(passwd(&users.name(0)), before, "the user stays as it was");
    assert_eq!((mode(&home), mode(&home.join(".claude"))), (0o711, 0o700));
    let lines = engine.test_account(&owner(), &users.name(0)).await.unwrap();
    assert!(lines.iter().filter(|line| !line.1.starts_with("No credential")).all(|line| line.0), "{lines:?}");

    let with = |name: &str, user: &str| NewAccount {
        name: name.into(),
        os_user: Some(user.into()),
        ..NewAccount::default()
    };
    for (user, word) in
        [("root", "root"), ("opkit-agent", "Leave --os-user out"), ("no-such-user", "no OS user")]
    {
        let error = engine.add_account(&owner(), with("extra", user)).await.unwrap_err();
        assert!(matches!(&error, Error::Refused(text) if text.contains(word)), "{user}: {error:?}");
    }
    let error = engine.add_account(&owner(), with("extra", &users.name(0))).await.unwrap_err();
    assert!(matches!(&error, Error::Refused(text) if text.contains("belongs to account")), "{error:?}");
    assert!(engine.accounts().await.unwrap().iter().all(|account| account.name != "extra"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_test_runs_the_agent_behind_the_wall_and_names_what_is_broken() {
    let Some(users) = Users::new('d', 1) else { return };
    let dir = open_dir();
    let engine = with_agent(dir.path()).await;
    engine.provision(&owner(), &users.prefix, 1).await.unwrap();
    let name = users.name(0);
    engine.store_account_key(&owner(), &name, "sk-test-1\n").await.unwrap();
    let uid = fs::metadata(users.home(0)).unwrap().uid();
    let lines = engine.test_account(&owner(), &name).await.unwrap();
    assert!(lines.iter().all(|line| line.0), "{lines:?}");
    let version = format!("9.9 as {uid}");
    assert!(lines.iter().any(|line| line.1.ends_with(&version)), "it ran as the account's user: {lines:?}");
    let kept: Vec<_> = fs::read_dir(users.home(0)).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(kept.len(), 2, "the test leaves nothing behind: {kept:?}");

    chmod(&users.home(0), 0o500);
    let lines = engine.test_account(&owner(), &name).await.unwrap();
    let wrong: Vec<_> = lines.iter().filter(|line| !line.0).collect();
    assert_eq!(wrong.len(), 1, "{lines:?}");
    assert!(wrong[0].1.contains("is not writable by") && wrong[0].1.contains("chmod u+rwx"), "{wrong:?}");
    chmod(&users.home(0), 0o700);

    let key = dir.path().join("data/keys").join(&name);
    chmod(&key, 0o644);
    engine.disable_account(&owner(), &name).await.unwrap();
    let lines = engine.test_account(&owner(), &name).await.unwrap();
    let wrong: Vec<_> = lines.iter().filter(|line| !line.0).map(|line| line.1.as_str()).collect();
    assert_eq!(wrong.len(), 2, "{lines:?}");
    assert!(wrong[0].contains("disabled") && wrong[1].contains("chmod 600"), "{wrong:?}");

    fs::rename(users.home(0), users.home(0).with_extension("away")).unwrap();
    let lines = engine.test_account(&owner(), &name).await.unwrap();
    fs::rename(users.home(0).with_extension("away"), users.home(0)).unwrap();
    assert!(lines.iter().any(|line| !line.0 && line.1.contains("opkit accounts provision")), "{lines:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn names_and_rights_are_checked() {
    let dir = open_dir();
    let engine = with_agent(dir.path()).await;
    let add = |name: &str| NewAccount { name: name.into(), ..NewAccount::default() };
    for name in ["", "A", "9a", "-a", "a_b", "a/b", "a.b", "anthropic", "session-secret", &"a".repeat(32)] {
        let error = engine.add_account(&owner(), add(name)).await.unwrap_err();
        assert!(matches!(error, Error::BadInput(_)), "{name}: {error:?}");
    }
    engine.add_account(&owner(), add("team-1")).await.unwrap();
    assert!(matches!(engine.add_account(&owner(), add("team-1")).await, Err(Error::Conflict(_))));
    let home = dir.path().join("data/accounts/team-1");
    assert_eq!(mode(&home), 0o700);
    let operator = Actor { access: Access::Operator, ..owner() };
    for refused in [
        engine.add_account(&operator, add("team-2")).await.map(drop),
        engine.disable_account(&operator, "team-1").await,
        engine.enable_account(&operator, "team-1").await,
        engine.store_account_key(&operator, "team-1", "sk").await,
        engine.test_account(&operator, "team-1").await.map(drop),
        engine.login_plan(&operator, "team-1").await.map(drop),
        engine.provision(&operator, "team", 1).await.map(drop),
    ] {
        assert!(matches!(refused, Err(Error::Forbidden(_))), "{refused:?}");
    }
    assert!(matches!(engine.disable_account(&owner(), "nobody").await, Err(Error::NotFound(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_a_file_for_the_service_alone() {
    let dir = open_dir();
    let engine = with_agent(dir.path()).await;
    for bad in ["", "  \n", "two words", "line\nline", "ä"] {
        let error = engine.store_account_key(&owner(), "ccuser-0", bad).await.unwrap_err();
        assert!(matches!(error, Error::BadInput(_)), "{bad:?}");
    }
    let credential = async |name: &str| {
        let accounts = engine.accounts().await.unwrap();
        accounts.into_iter().find(|account| account.name == name).unwrap().credential
    };
    assert_eq!(credential("ccuser-0").await, Credential::None);
    engine.store_account_key(&owner(), "ccuser-0", "sk-ant-0\n").await.unwrap();
    let file = dir.path().join("data/keys/ccuser-0");
    assert_eq!((mode(&file), fs::read_to_string(&file).unwrap().as_str()), (0o600, "sk-ant-0"));
    assert_eq!(credential("ccuser-0").await, Credential::OwnKey);
    fs::write(dir.path().join("data/keys/anthropic"), "sk-ant-1").unwrap();
    assert_eq!(credential("ccuser-1").await, Credential::SharedKey);
}

/// Leaves only these accounts in the pool.
async fn only(world: &World, names: &[&str]) {
    for account in world.engine.accounts().await.unwrap() {
        match names.contains(&account.name.as_str()) {
            true => world.engine.enable_account(&world.owner, &account.name).await.unwrap(),
            false => world.engine.disable_account(&world.owner, &account.name).await.unwrap(),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disabled_account_gets_nothing_new_and_keeps_what_runs() {
    let world = World::new(5).await;
    world.add_repo("app").await;
    only(&world, &[]).await;
    assert_eq!(world.engine.wip(SCOPE).await.unwrap().accounts_until, None, "nobody knows when");
    let id = world.create(bug("app", "Waits for an account", "good")).await;
    let asked = opkit_engine::now_ms();
    world
        .until("the dispatcher has looked", async || {
            let tasks = world.engine.health(SCOPE).await.unwrap().tasks;
            tasks.iter().find(|task| task.name == "dispatcher" && task.last_run > Some(asked)).map(drop)
        })
        .await;
    let all = world.engine.sessions(SCOPE, &SessionQuery::default()).await.unwrap();
    assert!(all.is_empty(), "nothing starts on a disabled account: {all:?}");
    only(&world, &["ccuser-3"]).await;
    world
        .until("its session lives", async || {
            let query = SessionQuery { objective: Some(id), live_only: true, ..SessionQuery::default() };
            let live = world.engine.sessions(SCOPE, &query).await.unwrap();
            live.into_iter().find(|session| session.pid.is_some())
        })
        .await;
    only(&world, &[]).await;
    world
        .until("the work is delivered", async || {
            (world.card(id).await.status == Status::AiReview).then_some(())
        })
        .await;
    only(&world, &["ccuser-1"]).await;
    assert_eq!(world.rests(id).await.status, Status::Done);
    let view = world.engine.objective(SCOPE, id).await.unwrap();
    let ran: Vec<_> =
        view.sessions.iter().rev().map(|session| (session.role, session.account.as_str())).collect();
    assert_eq!(ran, [(Role::Work, "ccuser-3"), (Role::Review, "ccuser-1")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn when_all_cool_down_the_page_says_until_when() {
    let world = World::new(5).await;
    world.add_repo("app").await;
    only(&world, &["ccuser-0", "ccuser-1"]).await;
    assert_eq!(world.engine.wip(SCOPE).await.unwrap().accounts_until, None);
    world.create(bug("app", "Limited", "usage-limit-always")).await;
    let until = world
        .until("no account is free", async || world.engine.wip(SCOPE).await.unwrap().accounts_until)
        .await;
    let pool = world.engine.account_pool(SCOPE).await.unwrap();
    let cooling: Vec<_> = pool.accounts.iter().filter(|account| account.state == "cooling_down").collect();
    assert_eq!(cooling.len(), 2);
    assert_eq!(cooling.iter().filter_map(|account| account.until).min(), Some(until));
    assert_eq!(pool.until, Some(until));
    let failure = cooling[0].last_failure.as_ref().expect("how it came to that");
    assert_eq!(failure.outcome.as_str(), "usage_limited");
    // One that a person brings back is free at once.
    world.engine.enable_account(&world.owner, "ccuser-4").await.unwrap();
    world
        .until("it is used", async || {
            let pool = world.engine.account_pool(SCOPE).await.unwrap();
            pool.accounts.iter().any(|a| a.name == "ccuser-4" && a.last_failure.is_some()).then_some(())
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_with_only_a_login_runs_one_session_and_no_review_of_its_own() {
    let world = World::new(5).await;
    world.add_repo("app").await;
    let config = world.engine.data().join("accounts/ccuser-0/.claude");
    fs::create_dir_all(&config).unwrap();
    fs::write(config.join(".credentials.json"), "{}").unwrap();
    let account = async || world.engine.accounts().await.unwrap().into_iter().next().unwrap();
    assert_eq!((account().await.credential, account().await.limit), (Credential::Login, 1));
    only(&world, &["ccuser-0"]).await;
    let one = world.create(bug("app", "One", "good")).await;
    world
        .until("the review waits for another account", async || {
            let card = world.card(one).await;
            let waits = card.sub_state == Some(SubState::WaitingAccount) && card.session.is_none();
            (card.status == Status::AiReview && waits).then_some(())
        })
        .await;
    only(&world, &["ccuser-0", "ccuser-2"]).await;
    assert_eq!(world.rests(one).await.status, Status::Done);
    let view = world.engine.objective(SCOPE, one).await.unwrap();
    let review = view.sessions.iter().find(|session| session.role == Role::Review).unwrap();
    assert_eq!(review.account, "ccuser-2");
    // A key of its own ends the restriction.
    world.engine.store_account_key(&world.owner, "ccuser-0", "sk-ant-0").await.unwrap();
    assert_eq!((account().await.credential, account().await.limit), (Credential::OwnKey, 5));
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_run_as_their_accounts_users_whose_shell_lets_nobody_in() {
    let Some(users) = Users::new('e', 2) else { return };
    let world = World::new(5).await;
    world.add_repo("app").await;
    let done = world.engine.provision(&world.owner, &users.prefix, 2).await.unwrap();
    assert!(done.lines.iter().all(|line| line.0), "{done:?}");
    only(&world, &[&users.name(0), &users.name(1)]).await;
    let pool = world.engine.account_pool(SCOPE).await.unwrap();
    assert!(pool.mode.starts_with("os-users: every account"), "{}", pool.mode);
    let id = world.create(bug("app", "As somebody of its own", "good")).await;
    let card = world.rests(id).await;
    assert_eq!(card.status, Status::Done, "{card:?}");
    let view = world.engine.objective(SCOPE, id).await.unwrap();
    assert_eq!(view.sessions.len(), 2);
    for session in &view.sessions {
        let uid: u32 =
            passwd(&session.account).expect("an OS user of the account's name")[2].parse().unwrap();
        assert_eq!(session.confinement.as_ref().expect("a proof").uid, uid, "{}", session.account);
    }
    assert_ne!(view.sessions[0].account, view.sessions[1].account, "a review is another account's");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_gets_no_other_user_while_its_sessions_live() {
    let Some(users) = Users::new('f', 1) else { return };
    let world = World::new(5).await;
    world.add_repo("app").await;
    let name = users.name(0);
    let new = NewAccount { name: name.clone(), ..NewAccount::default() };
    world.engine.add_account(&world.owner, new).await.unwrap();
    only(&world, &[&name]).await;
    let id = world.create(bug("app", "Hangs", "hangs")).await;
    let live = world
        .until("its session lives", async || {
            let query = SessionQuery { objective: Some(id), live_only: true, ..SessionQuery::default() };
            let live = world.engine.sessions(SCOPE, &query).await.unwrap();
            live.into_iter().find(|session| session.confinement.is_some())
        })
        .await;
    let done = world.engine.provision(&world.owner, &users.prefix, 1).await.unwrap();
    assert!(!done.lines[0].0 && done.lines[0].1.contains("when they have ended"), "{done:?}");
    let user = async || {
        let accounts = world.engine.accounts().await.unwrap();
        accounts.into_iter().find(|account| account.name == name).unwrap().os_user
    };
    assert_eq!(user().await, None);
    world.engine.stop_session(&world.owner, &live.id).await.unwrap();
    world.rests(id).await;
    let done = world.engine.provision(&world.owner, &users.prefix, 1).await.unwrap();
    assert!(done.lines[0].0, "{done:?}");
    assert_eq!(user().await, Some(name.clone()));
}
