/** A program that reads a file of ChronicleMap's for an import. The installer runs it in a process of its own. */
package org.refdb.gerrit.chronicle;
