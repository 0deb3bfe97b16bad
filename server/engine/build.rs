//! Migrations are read at compile time: a new file must rebuild this package.
fn main() {
    println!("cargo:rerun-if-changed=../../migrations");
}
