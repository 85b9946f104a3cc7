package org.refdb.gerrit.install;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.function.BiPredicate;
import java.util.function.Predicate;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A file in Git's configuration syntax, edited line by line so that everything else, comments and spacing included,
 * stays as it is. Files that it includes are not read.
 */
final class ConfigFile {
  private static final Pattern SECTION =
      Pattern.compile("^\\uFEFF?\\s*\\[\\s*([A-Za-z0-9.-]+)\\s*(\"[^\"]*\")?\\s*\\]");
  private static final Pattern SETTING =
      Pattern.compile("^\\s*([A-Za-z][A-Za-z0-9-]*)\\s*(?:=\\s*(.*?)\\s*|[#;].*)?$", Pattern.DOTALL);

  /** Marks a line that the installer, not the administrator, has added. */
  private static final String MARK = " # set by refdb's installer";

  private final Path path;

  /** The lines of the file; one that ends with a backslash is one element with the line that continues it. */
  private final List<String> lines;

  /** The charset of the file, in which it is written back. */
  private final Charset charset;

  private ConfigFile(Path path, String text, Charset charset) {
    this.path = path;
    this.lines = linesOf(text);
    this.charset = charset;
  }

  /** Reads a file as UTF-8, or as Latin-1 if it is not valid UTF-8, for example in old comments. JGit does the same. */
  static ConfigFile read(Path path) throws IOException {
    byte[] content = Files.readAllBytes(path);
    try {
      String text = StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(content)).toString();
      return new ConfigFile(path, text, StandardCharsets.UTF_8);
    } catch (CharacterCodingException e) {
      return new ConfigFile(path, new String(content, StandardCharsets.ISO_8859_1), StandardCharsets.ISO_8859_1);
    }
  }

  /** Reads a file; a missing one is empty and is created when it is written. */
  static ConfigFile readOrNew(Path path) throws IOException {
    return Files.exists(path) ? read(path) : new ConfigFile(path, "", StandardCharsets.UTF_8);
  }

  private static List<String> linesOf(String text) {
    List<String> lines = new ArrayList<>();
    boolean quoted = false;
    boolean comment = false;
    int start = 0;
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      if (c == '\n') {
        lines.add(text.substring(start, i + 1));
        start = i + 1;
        quoted = false;
        comment = false;
      } else if (comment) {
        continue;
      } else if (c == '\\') {
        i += text.startsWith("\r\n", i + 1) ? 2 : 1;
      } else if (c == '"') {
        quoted = !quoted;
      } else {
        comment = !quoted && (c == '#' || c == ';');
      }
    }
    if (start < text.length()) {
      lines.add(text.substring(start));
    }
    return lines;
  }

  /** All values of a setting, in the order of the file. A setting without {@code =} counts as {@code true}. */
  List<String> values(String section, String key) {
    return values(section, null, key);
  }

  /** All values of a setting in a subsection (null for none), in the order of the file. */
  List<String> values(String section, String subsection, String key) {
    List<String> values = new ArrayList<>();
    each(section, subsection, key, (line, value) -> values.add(value));
    return values;
  }

  /** All values of a setting in any subsection, in the order of the file. */
  List<String> valuesInSubsections(String section, String key) {
    List<String> values = new ArrayList<>();
    each(section, Objects::nonNull, key, (line, value) -> values.add(value));
    return values;
  }

  /** Adds a value to a multi-valued setting unless it has that value. Returns whether the file changes. */
  boolean add(String section, String key, String value) {
    if (values(section, key).contains(value)) {
      return false;
    }
    insert(section, null, "\t" + key + " = " + value + "\n");
    return true;
  }

  /** Sets a setting that has no value, and marks the line as the installer's. Returns whether the file changes. */
  boolean setUnlessSet(String section, String key, String value) {
    return setUnlessSet(section, null, key, value);
  }

  boolean setUnlessSet(String section, String subsection, String key, String value) {
    if (!values(section, subsection, key).isEmpty()) {
      return false;
    }
    insert(section, subsection, "\t" + key + " = " + value + MARK + "\n");
    return true;
  }

  /** Removes a setting that {@link #setUnlessSet} has set. Returns whether the file changes. */
  boolean unset(String section, String key) {
    return unset(section, null, key);
  }

  boolean unset(String section, String subsection, String key) {
    return removeWhere(section, subsection, key, (line, value) -> lines.get(line).stripTrailing().endsWith(MARK));
  }

  private void insert(String section, String subsection, String line) {
    int header = firstHeader(section, subsection);
    if (header < 0) {
      endLastLine();
      lines.add("[" + section + (subsection == null ? "" : " \"" + subsection + '"') + "]\n");
      lines.add(line);
    } else {
      endLine(header);
      lines.add(header + 1, line);
    }
  }

  /** Removes a value of a setting. Returns whether the file changes. */
  boolean remove(String section, String key, String value) {
    return remove(section, null, key, value);
  }

  boolean remove(String section, String subsection, String key, String value) {
    return removeWhere(section, subsection, key, (line, seen) -> seen.equals(value));
  }

  private boolean removeWhere(String section, String subsection, String key, BiPredicate<Integer, String> goes) {
    List<Integer> found = new ArrayList<>();
    each(
        section,
        subsection,
        key,
        (line, value) -> {
          if (goes.test(line, value)) {
            found.add(line);
          }
        });
    removeLines(found);
    return !found.isEmpty();
  }

  /** Removes settings, but not a section header on the same line. */
  private void removeLines(List<Integer> found) {
    for (int i = found.size() - 1; i >= 0; i--) {
      int line = found.get(i);
      Matcher header = SECTION.matcher(lines.get(line));
      if (header.find()) {
        lines.set(line, lines.get(line).substring(0, header.end()) + "\n");
      } else {
        lines.remove(line);
      }
    }
  }

  /** Replaces the file atomically, with the owner, group and mode that it has. */
  void write() throws IOException {
    byte[] content = String.join("", lines).getBytes(charset);
    // A symbolic link stays: its target is replaced.
    OwnedFiles.replace(Files.exists(path) ? path.toRealPath() : path, new ByteArrayInputStream(content));
  }

  private interface Visitor {
    void visit(int line, String value);
  }

  private void each(String section, String subsection, String key, Visitor visitor) {
    each(section, Predicate.isEqual(quoted(subsection)), key, visitor);
  }

  private void each(String section, Predicate<String> isMeant, String key, Visitor visitor) {
    boolean inside = false;
    for (int i = 0; i < lines.size(); i++) {
      String line = lines.get(i);
      Matcher header = SECTION.matcher(line);
      if (header.find()) {
        inside = header.group(1).equalsIgnoreCase(section) && isMeant.test(header.group(2));
        line = line.substring(header.end());
      }
      Matcher setting = SETTING.matcher(line);
      if (inside && setting.find() && setting.group(1).equalsIgnoreCase(key)) {
        visitor.visit(i, setting.group(2) == null ? "true" : unquoted(setting.group(2)));
      }
    }
  }

  private static String quoted(String subsection) {
    return subsection == null ? null : '"' + subsection + '"';
  }

  private int firstHeader(String section, String subsection) {
    String quoted = quoted(subsection);
    for (int i = 0; i < lines.size(); i++) {
      Matcher header = SECTION.matcher(lines.get(i));
      if (header.find() && header.group(1).equalsIgnoreCase(section) && Objects.equals(header.group(2), quoted)) {
        return i;
      }
    }
    return -1;
  }

  /** A value without quotes, trailing comment and ends of continued lines, and with escapes replaced. */
  private static String unquoted(String raw) {
    StringBuilder value = new StringBuilder();
    boolean quoted = false;
    for (int i = 0; i < raw.length(); i++) {
      char c = raw.charAt(i);
      if (c == '\\' && i + 1 < raw.length()) {
        i += raw.startsWith("\r\n", i + 1) ? 2 : 1;
        value.append(unescaped(raw.charAt(i)));
      } else if (c == '"') {
        quoted = !quoted;
      } else if (!quoted && (c == '#' || c == ';')) {
        break;
      } else {
        value.append(c);
      }
    }
    return value.toString().strip();
  }

  private static String unescaped(char c) {
    return switch (c) {
      case '\n' -> "";
      case 'n' -> "\n";
      case 't' -> "\t";
      case 'b' -> "\b";
      default -> String.valueOf(c);
    };
  }

  private void endLastLine() {
    if (!lines.isEmpty()) {
      endLine(lines.size() - 1);
    }
  }

  private void endLine(int line) {
    String text = lines.get(line);
    if (!text.isEmpty() && !text.endsWith("\n")) {
      lines.set(line, text + "\n");
    }
  }
}
