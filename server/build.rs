//! Makes a release without its site a compile error that names the command, not a riddle.

use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var_os("CARGO_FEATURE_EMBED_SITE").is_none() {
        return;
    }
    println!("cargo::rerun-if-env-changed=OPKIT_BUILD_ID");
    println!("cargo::rerun-if-changed=../dist/build-id");
    let file = Path::new("../dist/build-id");
    match std::fs::read_to_string(file) {
        Ok(id) if Path::new("../dist/pkg").join(id.trim()).join("frontend_bg.wasm").is_file() => {
            // The embedding is expanded anew whenever this value changes.
            println!("cargo::rustc-env=OPKIT_EMBEDDED_BUILD_ID={}", id.trim());
        }
        _ => println!(
            "cargo::error=there is no site in dist/ to put into the binary. Run `cargo xtask build --release`, which builds both"
        ),
    }
}
