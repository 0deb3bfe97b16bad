//! The stylesheet: `style/*.css` by hand, plus the utility classes that `app/src` uses.
//!
//! Every class written in a `class=` attribute must exist: as a selector in `style/`, or as a utility that
//! encre-css knows. A class that does nothing is a mistake nobody sees, so it fails the build.

mod classes;
mod minify;

use crate::steps::root;
use anyhow::{Context, Result, bail};
use classes::Found;
use encre_css::{Config, Preflight};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Builds the whole stylesheet.
pub(crate) fn build() -> Result<String> {
    let sheet = hand_written()?;
    let own = classes::selectors(&sheet);
    let config = config(&sheet);
    let mut used = BTreeSet::new();
    let mut wrong = Vec::new();
    for file in rust_files(&root().join("app/src"))? {
        let source = fs::read_to_string(&file)?;
        let shown = file.strip_prefix(root()).unwrap_or(&file).display().to_string();
        for found in classes::in_source(&source) {
            take(&found, &own, &config, &mut used, |class| {
                wrong.push(format!("{shown}:{}: {class}", found.line))
            });
        }
    }
    if !wrong.is_empty() {
        bail!("these classes are neither in style/*.css nor utilities:\n  {}", wrong.join("\n  "));
    }
    let utilities = generate(&used, &config);
    let defaults = defaults_for(&utilities);
    Ok(minify::minify(&format!("{sheet}\n{defaults}\n{utilities}")))
}

/// Sorts one literal's classes: known, generated, or wrong.
fn take(
    found: &Found,
    own: &BTreeSet<String>,
    config: &Config,
    used: &mut BTreeSet<String>,
    mut wrong: impl FnMut(&str),
) {
    let mut utilities = Vec::new();
    for class in found.text.split_whitespace() {
        let is_marker = ["group", "peer"].contains(&class.split('/').next().unwrap_or(class));
        if is_marker || own.contains(class) {
            continue;
        }
        let known = used.contains(class) || !generate(&BTreeSet::from([class.to_owned()]), config).is_empty();
        if known {
            utilities.push(class.to_owned());
        } else if found.is_attribute {
            wrong(class);
        } else {
            // Some other string: prose, a name. It is a class list only if every word of it is a class.
            return;
        }
    }
    used.extend(utilities);
}

fn generate(classes: &BTreeSet<String>, config: &Config) -> String {
    encre_css::generate(classes.iter().map(String::as_str), config)
}

/// `style/tokens.css`, `style/base.css`, then the others by name.
fn hand_written() -> Result<String> {
    let folder = root().join("style");
    let mut files: Vec<PathBuf> = fs::read_dir(&folder)
        .context("style/ is missing")?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|e| e == "css"))
        .collect();
    let rank = |path: &Path| match path.file_name().and_then(|n| n.to_str()) {
        Some("tokens.css") => 0,
        Some("base.css") => 1,
        Some(_) | None => 2,
    };
    files.sort_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| a.cmp(b)));
    if files.first().is_none_or(|first| rank(first) != 0) {
        bail!("style/tokens.css is missing");
    }
    let mut sheet = String::new();
    for file in files {
        sheet.push_str(&fs::read_to_string(&file)?);
        sheet.push('\n');
    }
    Ok(sheet)
}

/// The design's colours under their own names: `--surface` makes `bg-surface`, `hover:text-surface` …
fn config(sheet: &str) -> Config {
    let mut config = Config::default();
    config.preflight = Preflight::new_none();
    config.scanner = encre_css::Scanner::from_fn(|class| BTreeSet::from([class]));
    for name in colours(sheet) {
        let value = format!("var(--{name})");
        config.theme.colors.add(name, value);
    }
    config
}

fn colours(sheet: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let plain = classes::without_comments(sheet);
    for declaration in plain.split([';', '{', '}']) {
        let Some((name, value)) = declaration.trim().strip_prefix("--").and_then(|d| d.split_once(':'))
        else {
            continue;
        };
        let value = value.trim();
        let alias = value.strip_prefix("var(--").and_then(|v| v.strip_suffix(')'));
        let is_colour = ["light-dark(", "#", "rgb", "hsl", "oklch("].iter().any(|p| value.starts_with(p))
            || alias.is_some_and(|of| names.contains(of));
        if is_colour && !name.contains("shadow") {
            names.insert(name.trim().to_owned());
        }
    }
    names
}

/// Transforms, rings and filters are built from variables which the library's own reset would set. That reset
/// is off, so the ones in use are set here.
fn defaults_for(utilities: &str) -> String {
    let mut reset = Config::default();
    reset.preflight = Preflight::new_full();
    let full = encre_css::generate([], &reset);
    let known: BTreeMap<&str, &str> = full
        .lines()
        .filter_map(|line| line.trim().strip_suffix(';')?.split_once(':'))
        .filter(|(name, _)| name.starts_with("--en-"))
        .collect();
    let block: String = known
        .iter()
        .filter(|(name, _)| utilities.contains(&format!("var({name}")))
        .map(|(name, value)| format!("{name}:{value};"))
        .collect();
    if block.is_empty() { block } else { format!("*,::before,::after,::backdrop{{{block}}}") }
}

pub(crate) fn rust_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(rust_files(&path)?);
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHEET: &str =
        ":root { --surface: light-dark(#fff, #000); --accent: var(--surface); --s1: 4px; } .btn { }";

    #[test]
    fn a_token_becomes_a_colour_and_an_unknown_class_is_wrong() {
        let config = config(SHEET);
        let own = classes::selectors(SHEET);
        let (mut used, mut wrong) = (BTreeSet::new(), Vec::new());
        let found = Found { line: 1, text: "btn bg-surface md:flex nonsense-4".into(), is_attribute: true };
        take(&found, &own, &config, &mut used, |class| wrong.push(class.to_owned()));
        assert_eq!(wrong, ["nonsense-4"]);
        let css = generate(&used, &config);
        assert!(css.contains("background-color: var(--surface)"), "{css}");
        assert!(css.contains("md\\:flex"), "{css}");
    }

    #[test]
    fn prose_makes_no_rules() {
        let (mut used, config) = (BTreeSet::new(), config(SHEET));
        let found = Found { line: 1, text: "the flex table".into(), is_attribute: false };
        take(&found, &BTreeSet::new(), &config, &mut used, |_| {});
        assert!(used.is_empty());
    }

    #[test]
    fn variables_of_used_utilities_get_their_defaults() {
        let css = generate(&BTreeSet::from(["ring-2".to_owned()]), &config(SHEET));
        assert!(defaults_for(&css).contains("--en-ring-offset-width: 0px;"), "{css}");
        assert_eq!(defaults_for(""), "");
    }
}
