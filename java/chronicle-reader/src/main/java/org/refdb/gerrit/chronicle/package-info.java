/** A program that reads a file of ChronicleMap for an import. The installer runs it in a separate process. */
package org.refdb.gerrit.chronicle;
