"""What a report says: documents made of paragraphs, tables and chart specifications. Pure."""
