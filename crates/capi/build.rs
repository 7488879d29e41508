//! Names the shared library's ABI, so that a program finds the one it was linked with.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libnearfirst.so.0");
    println!("cargo::rerun-if-changed=build.rs");
}
