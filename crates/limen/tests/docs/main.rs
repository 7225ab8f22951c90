//! What the documentation shows is true: every manifest is taken by a hub, every file by what reads
//! it, and every link leads somewhere. Command lines are checked beside the commands.

mod files;
mod links;
mod manifests;
mod pages;
