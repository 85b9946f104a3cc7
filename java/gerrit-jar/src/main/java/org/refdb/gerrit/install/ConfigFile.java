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
 * A file in Git's configuration syntax, edited line by line. Everything that is not meant stays as it is, comments and
 * spacing too.
 */
final class ConfigFile {
  private static final Pattern SECTION = Pattern.compile("^\\uFEFF?\\s*\\[\\s*([A-Za-z0-9.-]+)\\s*(\"[^\"]*\")?\\s*\\]");
  private static final Pattern SETTING = Pattern.compile("^\\s*([A-Za-z][A-Za-z0-9-]*)\\s*=\\s*(.*?)\\s*$");

  /** Ends a line that is not an administrator's own choice. */
  private static final String MARK = " # set by refdb's installer";

  private final Path path;
  private final List<String> lines;

  /** Of the file, which is written back in it. */
  private final Charset charset;

  private ConfigFile(Path path, String text, Charset charset) {
    this.path = path;
    this.lines = new ArrayList<>(List.of(text.split("(?<=\n)")));
    this.charset = charset;
  }

  /** In UTF-8, or where it is not in that, as in old comments, in Latin-1: JGit decodes it so too. */
  static ConfigFile read(Path path) throws IOException {
    byte[] content = Files.readAllBytes(path);
    try {
      String text = StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(content)).toString();
      return new ConfigFile(path, text, StandardCharsets.UTF_8);
    } catch (CharacterCodingException e) {
      return new ConfigFile(path, new String(content, StandardCharsets.ISO_8859_1), StandardCharsets.ISO_8859_1);
    }
  }

  /** The file, or an empty one that writing makes. */
  static ConfigFile readOrNew(Path path) throws IOException {
    return Files.exists(path) ? read(path) : new ConfigFile(path, "", StandardCharsets.UTF_8);
  }

  /** All values of a setting, in the file's order. */
  List<String> values(String section, String key) {
    return values(section, null, key);
  }

  /** All values of a setting in a subsection, or in none where that is null, in the file's order. */
  List<String> values(String section, String subsection, String key) {
    List<String> values = new ArrayList<>();
    each(section, subsection, key, (line, value) -> values.add(value));
    return values;
  }

  /** All values of a setting in any subsection, in the file's order. */
  List<String> valuesInSubsections(String section, String key) {
    List<String> values = new ArrayList<>();
    each(section, Objects::nonNull, key, (line, value) -> values.add(value));
    return values;
  }

  /** Adds a value to a setting that can have several, unless it has it. Returns whether something changed. */
  boolean add(String section, String key, String value) {
    if (values(section, key).contains(value)) {
      return false;
    }
    insert(section, null, "\t" + key + " = " + value + "\n");
    return true;
  }

  /** Sets what nobody has set, with a mark by which it is found again. Returns whether something changed. */
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

  /** Removes what {@link #setUnlessSet} set. Returns whether something changed. */
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

  /** Removes a value of a setting. Returns whether something changed. */
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

  /** Removes settings; a section's header on the same line stays. */
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

  /** Writes it back, whole or not at all, with the owner, group and mode it has. */
  void write() throws IOException {
    byte[] content = String.join("", lines).getBytes(charset);
    // A link stays a link: what it points to is replaced.
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
        visitor.visit(i, unquoted(setting.group(2)));
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

  /** A value without quotes and without a comment behind it. */
  private static String unquoted(String raw) {
    StringBuilder value = new StringBuilder();
    boolean quoted = false;
    for (int i = 0; i < raw.length(); i++) {
      char c = raw.charAt(i);
      if (c == '"') {
        quoted = !quoted;
      } else if (!quoted && (c == '#' || c == ';')) {
        break;
      } else {
        value.append(c);
      }
    }
    return value.toString().strip();
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
