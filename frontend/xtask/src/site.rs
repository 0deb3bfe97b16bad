//! The browser bundle: wasm, bindgen, stylesheet, public files, laid out under `dist/`.
//!
//! `dist/pkg/<build id>/{frontend.js,frontend_bg.wasm,app.css,snippets/}`, `dist/build-id`, and beside it
//! the files of `public/`. The build id is a hash over the three, so its paths may be cached for ever.

use crate::steps::{cargo, root, run, step, target};
use crate::{Profile, styles};
use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;
use wasm_bindgen_cli_support::Bindgen;

/// Where the site is laid out.
pub(crate) fn dist() -> PathBuf {
    root().join("dist")
}

/// The id of the bundle that lies in `dist/` now.
pub(crate) fn build_id() -> Result<String> {
    let file = dist().join("build-id");
    let id = fs::read_to_string(&file).context("there is no dist/build-id. Run `cargo xtask build` first")?;
    Ok(id.trim().to_owned())
}

/// Builds everything the browser gets.
pub(crate) fn build(profile: Profile) -> Result<()> {
    // The stylesheet first: it takes a second, and a wrong class should not wait for the compiler.
    let css = step("stylesheet", styles::build)?;
    let wasm = step("wasm", || compile(profile))?;
    let glue = step("bindgen", || bindgen(&wasm, profile))?;
    let id = step("site", || lay_out(&glue, &css))?;
    if profile == Profile::Release {
        step("brotli", || compress(&dist()))?;
    }
    eprintln!("    build id {id}");
    Ok(())
}

/// Called by Trunk's hook: the same layout from the glue Trunk made.
pub(crate) fn from_trunk() -> Result<()> {
    let staged = std::env::var_os("TRUNK_STAGING_DIR").context("this task is for Trunk's post_build hook")?;
    let css = step("stylesheet", styles::build)?;
    let id = step("site", || lay_out(Path::new(&staged), &css))?;
    eprintln!("    build id {id}");
    Ok(())
}

fn compile(profile: Profile) -> Result<PathBuf> {
    let (name, folder) = match profile {
        Profile::Debug => ("dev", "debug"),
        Profile::Local => ("local", "local"),
        Profile::Release => ("wasm-release", "wasm-release"),
    };
    run(cargo().args(["build", "-p", "frontend", "--target", "wasm32-unknown-unknown", "--profile", name]))?;
    let file = target().join("wasm32-unknown-unknown").join(folder).join("frontend.wasm");
    if !file.is_file() {
        bail!("cargo made no {}", file.display());
    }
    Ok(file)
}

/// Makes the JavaScript glue, unless this very wasm file was done before.
fn bindgen(wasm: &Path, profile: Profile) -> Result<PathBuf> {
    let name = match profile {
        Profile::Debug => "debug",
        Profile::Local => "local",
        Profile::Release => "release",
    };
    let out = target().join("xtask").join(name);
    let meta = fs::metadata(wasm)?;
    let changed = meta.modified()?.duration_since(UNIX_EPOCH)?.as_nanos();
    let stamp = format!("{changed} {}", meta.len());
    if fs::read_to_string(out.join("stamp")).is_ok_and(|have| have == stamp) {
        return Ok(out);
    }
    if out.exists() {
        fs::remove_dir_all(&out)?;
    }
    let release = profile == Profile::Release;
    Bindgen::new()
        .input_path(wasm)
        .out_name("frontend")
        .web(true)?
        .typescript(false)
        .remove_name_section(release)
        .remove_producers_section(release)
        .generate(&out)?;
    fs::write(out.join("stamp"), stamp)?;
    Ok(out)
}

fn lay_out(glue: &Path, css: &str) -> Result<String> {
    let mut hash = Sha256::new();
    for name in ["frontend_bg.wasm", "frontend.js"] {
        hash.update(fs::read(glue.join(name)).with_context(|| format!("bindgen made no {name}"))?);
    }
    hash.update(css.as_bytes());
    let id = hex::encode(hash.finalize())[..12].to_owned();

    let pkg = dist().join("pkg");
    let folder = pkg.join(&id);
    if !folder.is_dir() {
        // Filled under another name: a server that reads the folder sees all of it or nothing.
        let staged = pkg.join(format!(".{id}"));
        remove(&staged)?;
        fs::create_dir_all(&staged)?;
        for name in ["frontend_bg.wasm", "frontend.js"] {
            fs::copy(glue.join(name), staged.join(name))?;
        }
        if glue.join("snippets").is_dir() {
            copy_tree(&glue.join("snippets"), &staged.join("snippets"))?;
        }
        fs::write(staged.join("app.css"), css)?;
        fs::rename(&staged, &folder)?;
    }
    clear_all_but(&dist(), &["pkg", "build-id"])?;
    copy_tree(&root().join("public"), &dist())?;
    let written = dist().join(".build-id");
    fs::write(&written, format!("{id}\n"))?;
    fs::rename(written, dist().join("build-id"))?;
    clear_all_but(&pkg, &[&id])?;
    Ok(id)
}

fn clear_all_but(folder: &Path, kept: &[&str]) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if !kept.iter().any(|name| entry.file_name() == *name) {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

fn remove(path: &Path) -> Result<()> {
    if path.is_dir() {
        fs::remove_dir_all(path)?;
    } else if path.exists() {
        fs::remove_file(path)?;
    }
    Ok(())
}

fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("{} is missing", from.display()))? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_tree(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// Writes a `.br` beside each file that compresses, unless a newer one is there.
fn compress(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            compress(&path)?;
            continue;
        }
        let kind = path.extension().and_then(|e| e.to_str()).unwrap_or("");
        if !["js", "wasm", "css", "svg", "webmanifest"].contains(&kind) {
            continue;
        }
        let packed = path.with_extension(format!("{kind}.br"));
        let fresh =
            |made: fs::Metadata| Ok::<bool, std::io::Error>(made.modified()? >= path.metadata()?.modified()?);
        if fs::metadata(&packed).and_then(fresh).unwrap_or(false) {
            continue;
        }
        fs::write(&packed, brotli_of(&fs::read(&path)?)?)?;
    }
    Ok(())
}

/// The bytes in brotli, quality 11.
pub(crate) fn brotli_of(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut packed = Vec::new();
    let settings = brotli::enc::BrotliEncoderParams { quality: 11, lgwin: 22, ..Default::default() };
    brotli::BrotliCompress(&mut &bytes[..], &mut packed, &settings)?;
    Ok(packed)
}
