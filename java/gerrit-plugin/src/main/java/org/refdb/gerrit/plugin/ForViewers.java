package org.refdb.gerrit.plugin;

import com.google.gerrit.common.data.GlobalCapability;
import com.google.gerrit.extensions.annotations.CapabilityScope;
import com.google.gerrit.extensions.annotations.RequiresAnyCapability;

/** A REST view for users who may look at caches. Gerrit finds the annotation of a superclass too. */
@RequiresAnyCapability(
    value = {GlobalCapability.VIEW_CACHES, GlobalCapability.MAINTAIN_SERVER},
    scope = CapabilityScope.CORE)
abstract class ForViewers {}
